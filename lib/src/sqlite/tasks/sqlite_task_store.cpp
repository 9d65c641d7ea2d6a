#include "sqlite/tasks/sqlite_task_store.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "leasehold/errors.hpp"
#include "sqlite/database/callers_connection.hpp"
#include "sqlite/tasks/sqlite_task_listener.hpp"
#include "sqlite_task_schema.hpp"
#include "sqlite_task_sql.hpp"
#include "support/quote.hpp"
#include "support/ranges.hpp"

namespace leasehold::inline v0::sqlite {
namespace {

using std::chrono::milliseconds;

/// Identifies a file, whatever path leads to it.
std::optional<std::pair<dev_t, ino_t>> identity_of(const std::string& path) {
  struct stat status {};
  if (path.empty() || stat(path.c_str(), &status) != 0) return std::nullopt;
  return std::pair(status.st_dev, status.st_ino);
}

}  // namespace

OpenOptions open_options(const TaskQueueOptions& options) {
  return {.timeout = options.sqlite.timeout,
          .schema = {.kind = "tasks",
                     .migrations = task_schema::all,
                     .on_new_boot = &task_sql::new_boot},
          .durability = Durability::power_failure};
}

SqliteTaskStore::SqliteTaskStore(std::shared_ptr<Database> database, TaskQueueOptions options)
    : database_(std::move(database)), options_(std::move(options)) {}

std::unique_ptr<TaskListener> SqliteTaskStore::listen() const {
  return std::make_unique<SqliteTaskListener>(database_);
}

std::unique_ptr<TaskStore> SqliteTaskStore::twin(milliseconds patience) const {
  // A second connection to the file competes with ours for the right to write, instead of waiting
  // behind it.
  auto database = database_;
  if (database_->uri().kind == SqliteUri::Kind::file) {
    auto options = open_options(options_);
    options.timeout = std::min(options.timeout, patience);
    options.busy_retries = database_->retry_counter();
    database = open_database(database_->uri(), options);
  }
  return std::make_unique<SqliteTaskStore>(std::move(database), options_);
}

void SqliteTaskStore::transact(const std::function<void(sqlite3*)>& work) {
  database_->write([&](Connection& connection) {
    const Inside inside(*database_, connection);
    work(connection.handle());
  });
  notify_workers();
}

void SqliteTaskStore::check_callers(const CallersTransaction& transaction) const {
  const auto* handle = std::get_if<sqlite3*>(&transaction);
  if (handle == nullptr) {
    throw InvalidArgument(
        "the queue is in " + where() +
        ", and this is a transaction in PostgreSQL: use the functions of leasehold/sqlite.hpp");
  }
  sqlite3* const connection = *handle;
  const bool is_ours = Inside::find([&](const Inside& inside) {
    return &inside.database() == database_.get() && inside.connection().handle() == connection;
  });
  if (is_ours) return;
  if (database_->uri().kind != SqliteUri::Kind::file) {
    throw InvalidArgument(where() +
                          ": a database in memory has no second connection: use transact()");
  }
  check_in_transaction(connection);
  const std::string path = path_of(connection);
  const auto ours = identity_of(database_->uri().path);
  if (!ours || identity_of(path) != ours) {
    throw InvalidArgument("the transaction must be in the same file: the queue is in " + where() +
                          ", and the main database of the connection is " + in_quotes(path));
  }
}

std::unique_ptr<TaskStore> open_task_store(std::string_view uri, const TaskQueueOptions& options) {
  const auto parsed = parse_sqlite_uri(uri);
  if (!parsed) return nullptr;
  check_range<milliseconds>("timeout", options.sqlite.timeout, milliseconds{1},
                            std::chrono::hours{1});
  return std::make_unique<SqliteTaskStore>(open_database(*parsed, open_options(options)), options);
}

}  // namespace leasehold::inline v0::sqlite
