#pragma once

#include <memory>
#include <stop_token>

#include "tasks/runtime/worker_context.hpp"

namespace leasehold::inline v0 {

/// Renews all leases of a worker in one statement, by a way to the store of its own: it waits for
/// nobody.
class Renewer {
 public:
  explicit Renewer(const WorkerContext& context);

  void run(const std::stop_token& stop);

  /// Renews what was not renewed within this time. Throws as the store does; then the leases stay
  /// as they are.
  void renew_once(std::chrono::milliseconds age);

 private:
  const WorkerContext& context_;
  const std::chrono::milliseconds interval_;
  const std::unique_ptr<TaskStore> store_;
};

}  // namespace leasehold::inline v0
