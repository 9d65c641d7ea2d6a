#include "tasks/telemetry.hpp"

namespace leasehold::inline v0 {

TaskStats TaskTelemetry::snapshot(std::uint64_t retries) const noexcept {
  return {
      .enqueued = enqueued.value(),
      .already_there = already_there.value(),
      .leased = leased.value(),
      .empty_leases = empty_leases.value(),
      .extended = extended.value(),
      .completed = completed.value(),
      .failed = failed.value(),
      .dead = dead.value(),
      .released = released.value(),
      .recovered = recovered.value(),
      .stale_writes = stale_writes.value(),
      .version_conflicts = version_conflicts.value(),
      .outcomes_unknown = outcomes_unknown.value(),
      .retries = retries,
      .lease_time = lease_time.snapshot(),
  };
}

}  // namespace leasehold::inline v0
