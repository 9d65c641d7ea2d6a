#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "leasehold/task_queue.hpp"
#include "stores.hpp"
#include "support/thread_safety.hpp"

namespace leasehold::cli {

/// Does what leaseholdd does, in a thread of the demo: recovers expired leases and counts tasks.
class RecoveryThread {
 public:
  RecoveryThread(const Stores& stores, std::uint64_t tasks);

  /// Ends the thread, after one more recovery.
  void stop();

  std::uint64_t recovered() const { return recovered_; }
  std::uint64_t completed() const { return completed_; }
  bool all_done() const { return completed_ >= tasks_; }
  /// The last one; empty if there was none.
  std::string error() const;

 private:
  void recover_and_count();

  TaskQueue queue_;
  const std::uint64_t tasks_;
  std::atomic<std::uint64_t> recovered_{0};
  std::atomic<std::uint64_t> completed_{0};
  mutable ThreadMutex mutex_;
  std::string error_ LEASEHOLD_GUARDED_BY(mutex_);
  std::jthread thread_;  // last: it uses everything above
};

}  // namespace leasehold::cli
