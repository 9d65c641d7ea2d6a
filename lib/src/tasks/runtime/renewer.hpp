#pragma once

#include <chrono>
#include <memory>
#include <stop_token>

#include "tasks/lease_writes.hpp"
#include "tasks/runtime/worker_context.hpp"

namespace leasehold::inline v0 {

/// Renews all leases of a worker in one statement. It has a route to the store of its own, so that
/// it never waits for other calls.
class Renewer {
 public:
  explicit Renewer(const WorkerContext& context);

  void run(const std::stop_token& stop);

  enum class Done {
    all,
    not_all,  ///< somebody has locked the rows of the others
  };
  /// Renews the leases that were not renewed within `age`. Throws as the store does; the leases are
  /// unchanged then.
  Done renew_once(std::chrono::milliseconds age);

 private:
  const WorkerContext& context_;
  const std::chrono::milliseconds interval_;
  const std::unique_ptr<TaskStore> store_;
  LeaseWrites writes_;
};

}  // namespace leasehold::inline v0
