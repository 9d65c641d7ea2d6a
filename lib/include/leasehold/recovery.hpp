#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "leasehold/export.hpp"
#include "leasehold/task.hpp"

namespace leasehold::inline v0 {

class QueueCore;  // internal
class TaskQueue;

struct RecoveryOptions {
  /// A task whose lease expires for this many-th time is dead: it probably kills its workers.
  /// 1 to 1,000,000. Default 3.
  int max_crashes = 3;

  /// Leases taken back in one statement, 1 to 10,000. Default 1,000.
  std::size_t batch = 1'000;
};

/// A lease that was taken back.
struct RecoveredTask {
  TaskId id;
  std::string type;
  TaskState state = TaskState::pending;  ///< now: pending or dead
  std::string worker;                    ///< that did not renew it
  std::chrono::milliseconds overdue{0};  ///< since it expired
  int crash_count = 0;                   ///< this one counted
};

struct RecoveryReport {
  std::vector<RecoveredTask> tasks;
  std::size_t requeued = 0;
  std::size_t dead = 0;
  std::size_t batches = 0;
};

/// Takes back what crashed workers held: expired leases become pending again at their old place, or
/// dead after too many crashes or attempts. Only the database's clock judges, and a renewal or
/// completion that commits first wins.
///
/// Any number may run at once, in any number of processes; each lease is taken back once.
/// Thread safety: every member may be called from any thread.
class LEASEHOLD_API Recovery {
 public:
  explicit Recovery(TaskQueue& queue, RecoveryOptions options = {});

  /// Goes on until no expired lease is left. Throws as TaskQueue does; what was done before stays
  /// done.
  RecoveryReport run_once();

 private:
  std::shared_ptr<QueueCore> core_;
  RecoveryOptions options_;
};

}  // namespace leasehold::inline v0
