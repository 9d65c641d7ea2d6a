#pragma once

#include <string>

#include "postgres/statement.hpp"

namespace leasehold::inline v0::postgres {

/// The statements of sql/queries for one schema.
struct Statements {
  explicit Statements(const std::string& schema);

  Statement enqueue, enqueue_unique, lease, complete_and_lease, give_back, look_after, extend,
      progress, complete, fail, release, recover, get, list, update, cancel, retry, add_days,
      may_drop_days, drop_days, remove_stray, remove_completed, remove_finished, counts, health,
      oldest_snapshot;
};

}  // namespace leasehold::inline v0::postgres
