#pragma once

#include "book.hpp"

namespace leasehold::cli {

/// In the file of the queue, on its connection.
std::unique_ptr<Book> open_sqlite_book(TaskQueue& queue);

}  // namespace leasehold::cli
