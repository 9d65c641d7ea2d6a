#pragma once

#include <string>

#include "postgres/statement.hpp"

namespace leasehold::inline v0::postgres {

/// The statements of sql/queries for one schema.
struct Statements {
  explicit Statements(const std::string& schema);

  Statement enqueue, enqueue_unique, lease, lease_and_complete, lease_and_delete, extend, progress,
      complete, complete_and_delete, fail, release, recover, get, list, update, cancel, retry,
      remove_finished, counts, health, oldest_snapshot, listen;
};

}  // namespace leasehold::inline v0::postgres
