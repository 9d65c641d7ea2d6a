#include "postgres/statements.hpp"

#include "sql_queries.hpp"

namespace leasehold::inline v0::postgres {

Statements::Statements(const std::string& schema)
    : enqueue(sql::enqueue, schema),
      enqueue_unique(sql::enqueue_unique, schema),
      lease(sql::lease, schema, Plan::kept),
      lease_and_complete(sql::lease_and_complete, schema, Plan::kept),
      lease_and_delete(sql::lease_and_delete, schema, Plan::kept),
      extend(sql::extend, schema, Plan::kept),
      progress(sql::progress, schema),
      complete(sql::complete, schema, Plan::kept),
      complete_and_delete(sql::complete_and_delete, schema, Plan::kept),
      fail(sql::fail, schema),
      release(sql::release, schema),
      recover(sql::recover, schema),
      get(sql::get, schema),
      list(sql::list, schema),
      update(sql::update, schema),
      cancel(sql::cancel, schema),
      retry(sql::retry, schema),
      remove_finished(sql::remove_finished, schema),
      counts(sql::counts, schema),
      health(sql::health, schema),
      oldest_snapshot(sql::oldest_snapshot, schema),
      listen(sql::listen, schema) {}

}  // namespace leasehold::inline v0::postgres
