#include "tasks/held_lease.hpp"

namespace leasehold::inline v0 {

void check_not_ended(const HeldLease& lease, const char* what) {
  if (lease.stage != LeaseStage::ended) return;
  throw InvalidArgument(std::string(what) + " of task " + std::to_string(lease.task.key.id.value) +
                        ": this lease has ended or was lost");
}

void check_not_handed_over(LeaseStage stage, const LeaseKey& key, const char* what) {
  if (stage != LeaseStage::handed_over) return;
  throw InvalidArgument(std::string(what) + " of task " + std::to_string(key.id.value) +
                        " after complete_in(): that transaction may have locked its row");
}

LeaseLost lease_lost(const LeaseKey& key, const std::string& worker) {
  // NOLINTNEXTLINE(modernize-return-braced-init-list): the constructor is explicit
  return LeaseLost("task " + std::to_string(key.id.value) + " is no longer leased by " + worker +
                   " (version " + std::to_string(key.version.value) + ")");
}

}  // namespace leasehold::inline v0
