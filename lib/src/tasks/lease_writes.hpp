#pragma once

#include <spdlog/fwd.h>

#include <chrono>
#include <exception>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tasks/held_lease.hpp"
#include "tasks/task_store.hpp"
#include "tasks/telemetry.hpp"

namespace leasehold::inline v0 {

/// What became of a write that only the holder of a lease may make.
enum class WriteResult {
  accepted,   ///< written: now, or by an earlier attempt whose reply was lost
  stale,      ///< not written: somebody else has the task, or it has ended
  unknown,    ///< a reply was lost, and the store can no longer tell what happened
  undecided,  ///< not known yet: the write, or the look-up after it, failed. It may be repeated
};

/// The results of a write that ends leases.
struct WriteResults {
  std::vector<WriteResult> each;  ///< in the order of the leases
  std::exception_ptr error;       ///< why some are undecided; null if none is
};

/// A lease that its holder ends by completing the task.
struct FinishedLease {
  HeldLease* lease;
  std::string_view result;  ///< empty for none
};

/// A lease that its holder ends by reporting that the attempt failed.
struct FailedLease {
  HeldLease* lease;
  std::string_view error;
  std::optional<std::chrono::milliseconds> retry_after;  ///< none: the task is dead at once
};

/// What to do when the reply to a write is lost.
enum class LostReply {
  /// Repeat it once. If that does not help, the call fails with OutcomeUnknown for all its leases,
  /// which stay as they were.
  repeat,
  /// Leave it to the caller to repeat it later.
  report,
};

/// Makes the writes of lease holders and finds out what became of those whose reply was lost.
///
/// Repeating a write is always safe: if the first one was executed, the version has changed and the
/// second one is refused. A refusal alone is therefore ambiguous for a lease that is `in_doubt`.
/// Its task is looked up then, and the record tells which of the two it was.
///
/// Thread-safe; each lease belongs to one call at a time.
class LeaseWrites {
 public:
  LeaseWrites(TaskStore& store, TaskTelemetry& telemetry, spdlog::logger& logger,
              LostReply lost_reply);

  // These do not end the lease, so repeating them is all it takes. They throw as the store does.

  struct Renewal {
    /// In the order of the leases. Undecided: still ours, but somebody has locked the row.
    std::vector<WriteResult> each;
    HeldLease::Clock::time_point valid_until;  ///< of those that were accepted
  };
  Renewal extend(std::span<HeldLease* const> leases, std::chrono::milliseconds duration);
  WriteResult progress(const HeldLease& lease, std::string_view json);

  // These end the lease. They throw nothing: an error is part of the result.

  WriteResults complete(std::span<const FinishedLease> leases, Keep keep);

  struct Endings : WriteResults {
    /// Of those that were accepted: pending or dead; or completed, by the handler's own
    /// transaction.
    std::vector<TaskState> states;
  };
  /// `delay`: none to keep the task's place in the queue.
  Endings release(std::span<HeldLease* const> leases,
                  std::optional<std::chrono::milliseconds> delay, GivenBack when);
  Endings fail(std::span<const FailedLease> leases);

 private:
  template <typename Write>
  auto once_or_twice(const char* what, std::span<HeldLease* const> ending, Write&& write);
  template <typename LookUp>
  auto look_up(LookUp&& call);
  void look_up_completions(std::span<HeldLease* const> leases, WriteResults& results);
  void all_or_none(std::span<HeldLease* const> leases, WriteResults& results) const;
  struct Verdict {
    WriteResult result = WriteResult::stale;
    TaskState state = TaskState::pending;
  };
  Verdict look_up_release(const HeldLease& lease);
  Verdict look_up_failure(const HeldLease& lease, std::string_view error);

  TaskStore& store_;
  TaskTelemetry& telemetry_;
  spdlog::logger& logger_;
  const LostReply lost_reply_;
};

}  // namespace leasehold::inline v0
