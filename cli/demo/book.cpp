#include "book.hpp"

#include "postgres_book.hpp"
#include "sqlite_book.hpp"

namespace leasehold::cli {

std::unique_ptr<Book> Book::open(const std::string& task_uri, TaskQueue& queue) {
  return task_uri.starts_with("sqlite:") ? open_sqlite_book(queue) : open_postgres_book(task_uri);
}

}  // namespace leasehold::cli
