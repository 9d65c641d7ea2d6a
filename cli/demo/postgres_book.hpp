#pragma once

#include "book.hpp"

namespace leasehold::cli {

std::unique_ptr<Book> open_postgres_book(const std::string& uri);

}  // namespace leasehold::cli
