#pragma once

#include <chrono>
#include <string_view>

#include "leasehold/export.hpp"
#include "leasehold/lock.hpp"

namespace leasehold::inline v0 {

/// What can happen to a lock, in the order of its life.
enum class LockEventType {
  acquiring,         ///< an acquire began
  contended,         ///< somebody else holds the lock; reported at most once for an acquire
  stale_seen,        ///< the previous holder's grant had expired without a release
  retried,           ///< another attempt
  queued,            ///< the acquire waits in line
  acquired,          ///< granted; `elapsed` is the time since `acquiring`
  handover,          ///< the grant came from the line; `elapsed` is the time waited there
  reentered,         ///< an earlier grant of this runner is shared
  takeover,          ///< granted after a holder that had not released the lock
  forced,            ///< taken from a holder, or released, by an operator's override
  failed,            ///< acquire() returned nothing or threw; `elapsed` is the time it took
  heartbeat,         ///< renewed
  heartbeat_failed,  ///< one renewal failed; it is retried until the lock is no longer trusted
  lost,              ///< `elapsed` is the time held, `reason` says why it ended
  releasing,         ///< a release began
  released,          ///< `elapsed` is the time held
};

struct LockEvent {
  LockEventType type;
  std::string_view name;
  FencingToken token{};                  ///< 0 before the grant
  std::chrono::microseconds elapsed{0};  ///< see LockEventType
  LossReason reason = LossReason::none;  ///< for `lost`
};

/// Receives every event of a client's locks. It is called on the thread where the event happens,
/// which may be the thread that renews locks: be quick, do not throw, and do not call the client.
class LEASEHOLD_API LockObserver {
 public:
  virtual ~LockObserver() = default;
  virtual void on_lock_event(const LockEvent& event) noexcept = 0;
};

}  // namespace leasehold::inline v0
