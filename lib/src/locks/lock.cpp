#include "leasehold/lock.hpp"

#include <utility>

#include "locks/lock_core.hpp"

namespace leasehold::inline v0 {

Lock::Lock(std::shared_ptr<LockCore> core, std::shared_ptr<Lease> lease, bool reentered,
           int retries)
    : core_(std::move(core)), lease_(std::move(lease)), reentered_(reentered), retries_(retries) {}

Lock::Lock(Lock&&) noexcept = default;

Lock& Lock::operator=(Lock&& other) noexcept {
  if (this == &other) return *this;
  if (lease_) release();
  core_ = std::move(other.core_);
  lease_ = std::move(other.lease_);
  released_ = std::exchange(other.released_, std::nullopt);
  reentered_ = other.reentered_;
  retries_ = other.retries_;
  return *this;
}

Lock::~Lock() {
  if (lease_) release();
}

const std::string& Lock::name() const noexcept { return lease_->name(); }
FencingToken Lock::token() const noexcept { return lease_->token(); }
const std::string& Lock::owner() const noexcept { return lease_->terms().owner; }
bool Lock::valid() const noexcept { return !released_ && lease_->valid(); }
std::chrono::steady_clock::time_point Lock::valid_until() const noexcept {
  return lease_->valid_until();
}
std::stop_token Lock::lost() const noexcept { return lease_->lost_token(); }
LossReason Lock::loss_reason() const noexcept { return lease_->loss_reason(); }
const std::optional<LockRecord>& Lock::took_over_from() const noexcept {
  return lease_->took_over_from();
}
bool Lock::reentered() const noexcept { return reentered_; }
int Lock::retries() const noexcept { return retries_; }

Ownership Lock::extend() { return released_ ? Ownership::lost : core_->extend(lease_); }

Ownership Lock::downgrade() { return released_ ? Ownership::lost : core_->downgrade(lease_); }

std::vector<LockWaiter> Lock::waiters() const {
  auto record = core_->store->status(name());
  return record ? std::move(record->waiters) : std::vector<LockWaiter>{};
}

Release Lock::release() noexcept {
  if (!released_) released_ = core_->release(lease_);
  return *released_;
}

}  // namespace leasehold::inline v0
