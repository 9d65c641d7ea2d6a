#include "postgres/statements.hpp"

#include "sql_queries.hpp"

namespace leasehold::inline v0::postgres {

Statements::Statements(const std::string& schema)
    : enqueue(sql::enqueue, schema),
      enqueue_unique(sql::enqueue_unique, schema),
      lease(sql::lease, schema, Plan::kept),
      complete_and_lease(sql::complete_and_lease, schema, Plan::kept),
      give_back(sql::give_back, schema),
      look_after(sql::look_after, schema, Plan::kept),
      extend(sql::extend, schema, Plan::kept),
      progress(sql::progress, schema, Plan::kept),
      complete(sql::complete, schema, Plan::kept),
      fail(sql::fail, schema, Plan::kept),
      release(sql::release, schema, Plan::kept),
      recover(sql::recover, schema, Plan::kept),
      get(sql::get, schema),
      list(sql::list, schema),
      update(sql::update, schema),
      cancel(sql::cancel, schema),
      retry(sql::retry, schema),
      add_days(sql::add_days, schema),
      may_drop_days(sql::may_drop_days, schema),
      drop_days(sql::drop_days, schema),
      remove_stray(sql::remove_stray, schema),
      remove_completed(sql::remove_completed, schema),
      remove_finished(sql::remove_finished, schema),
      counts(sql::counts, schema),
      health(sql::health, schema),
      oldest_snapshot(sql::oldest_snapshot, schema) {}

}  // namespace leasehold::inline v0::postgres
