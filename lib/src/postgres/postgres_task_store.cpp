#include "postgres/postgres_task_store.hpp"

#include <algorithm>

#include "leasehold/errors.hpp"
#include "postgres/callers_transaction.hpp"
#include "postgres/lock_patience.hpp"
#include "postgres/postgres_listener.hpp"

namespace leasehold::inline v0::postgres {

PostgresTaskStore::PostgresTaskStore(PostgresUri uri, const TaskQueueOptions& options)
    : uri_(std::move(uri)),
      options_(options),
      pool_(uri_, options.postgres),
      statements_(options.postgres.schema),
      patience_(lock_patience(options.postgres.command_timeout)),
      channel_(options.notify == Notify::on ? std::optional(options.postgres.schema)
                                            : std::nullopt),
      leasing_(pool_, statements_, options_.postgres),
      small_calls_(pool_, leasing_, statements_, options.postgres) {}

void PostgresTaskStore::check_callers(const CallersTransaction& transaction) const {
  if (const auto* callers = std::get_if<pqxx::transaction_base*>(&transaction)) {
    return check_client_encoding(**callers);
  }
  throw InvalidArgument(
      "the queue is in " + where() +
      ", and this is a transaction in SQLite: use the functions of leasehold/postgres.hpp");
}

void PostgresTaskStore::transact(const std::function<void(sqlite3*)>& /*work*/) {
  throw InvalidArgument(
      "the queue is in " + where() +
      ", and transact() is for SQLite: use the functions of leasehold/postgres.hpp");
}

std::unique_ptr<TaskStore> PostgresTaskStore::twin(std::chrono::milliseconds patience) const {
  TaskQueueOptions options = options_;
  options.postgres.connections = 1;
  options.postgres.command_timeout = std::min(patience, options.postgres.command_timeout);
  PostgresUri uri = uri_;
  uri.connect_timeout = std::min(patience, uri.connect_timeout);
  return std::make_unique<PostgresTaskStore>(std::move(uri), options);
}

std::unique_ptr<TaskListener> PostgresTaskStore::listen() const {
  return std::make_unique<PostgresListener>(uri_, options_.postgres.schema);
}

std::unique_ptr<TaskStore> open_task_store(std::string_view uri, const TaskQueueOptions& options) {
  check_postgres_options(options.postgres);
  return std::make_unique<PostgresTaskStore>(parse_uri(uri, options.postgres.connect_timeout),
                                             options);
}

}  // namespace leasehold::inline v0::postgres
