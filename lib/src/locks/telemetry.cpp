#include "locks/telemetry.hpp"

namespace leasehold::inline v0 {

void LockTelemetry::record(const LockEvent& event) noexcept {
  counts_[static_cast<std::size_t>(event.type)].fetch_add(1, std::memory_order_relaxed);
  switch (event.type) {
    case LockEventType::acquired:
      held_.fetch_add(1, std::memory_order_relaxed);
      time_to_acquire_.add(event.elapsed);
      break;
    case LockEventType::handover:
      time_waited_.add(event.elapsed);
      break;
    case LockEventType::lost:
    case LockEventType::released:
      held_.fetch_sub(1, std::memory_order_relaxed);
      time_held_.add(event.elapsed);
      break;
    default:
      break;
  }
  if (observer_) observer_->on_lock_event(event);
}

LockStats LockTelemetry::snapshot() const noexcept {
  using Type = LockEventType;
  const auto gauge = [](const std::atomic<std::int64_t>& value) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(0, value.load()));
  };
  LockStats stats;
  stats.acquired = count(Type::acquired);
  stats.reentered = count(Type::reentered);
  stats.released = count(Type::released);
  stats.contended = count(Type::contended);
  stats.retries = count(Type::retried);
  stats.failures = count(Type::failed);
  stats.heartbeats = count(Type::heartbeat);
  stats.heartbeat_failures = count(Type::heartbeat_failed);
  stats.lost = count(Type::lost);
  stats.stale_seen = count(Type::stale_seen);
  stats.takeovers = count(Type::takeover);
  stats.forced = count(Type::forced);
  stats.handovers = count(Type::handover);
  stats.held = gauge(held_);
  stats.waiting = gauge(waiting_);
  stats.time_to_acquire = time_to_acquire_.snapshot();
  stats.time_held = time_held_.snapshot();
  stats.time_waited = time_waited_.snapshot();
  return stats;
}

}  // namespace leasehold::inline v0
