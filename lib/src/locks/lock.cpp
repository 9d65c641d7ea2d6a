#include "leasehold/lock.hpp"

#include <utility>

#include "locks/lock_core.hpp"

namespace leasehold::inline v0 {

Lock::Lock(std::shared_ptr<LockCore> core, std::shared_ptr<Grant> grant, bool reentered,
           int retries)
    : core_(std::move(core)), grant_(std::move(grant)), reentered_(reentered), retries_(retries) {}

Lock::Lock(Lock&&) noexcept = default;

Lock& Lock::operator=(Lock&& other) noexcept {
  if (this == &other) return *this;
  if (grant_) release();
  core_ = std::move(other.core_);
  grant_ = std::move(other.grant_);
  released_ = std::exchange(other.released_, std::nullopt);
  reentered_ = other.reentered_;
  retries_ = other.retries_;
  return *this;
}

Lock::~Lock() {
  if (grant_) release();
}

const std::string& Lock::name() const noexcept { return grant_->name(); }
FencingToken Lock::token() const noexcept { return grant_->token(); }
const std::string& Lock::owner() const noexcept { return grant_->terms().owner; }
bool Lock::valid() const noexcept { return !released_ && grant_->valid(); }
std::chrono::steady_clock::time_point Lock::valid_until() const noexcept {
  return to_steady(grant_->valid_until());
}
std::stop_token Lock::lost() const noexcept { return grant_->lost_token(); }
LossReason Lock::loss_reason() const noexcept { return grant_->loss_reason(); }
const std::optional<LockRecord>& Lock::took_over_from() const noexcept {
  return grant_->took_over_from();
}
bool Lock::reentered() const noexcept { return reentered_; }
int Lock::retries() const noexcept { return retries_; }

Ownership Lock::extend() { return released_ ? Ownership::lost : core_->extend(grant_); }

Ownership Lock::downgrade() { return released_ ? Ownership::lost : core_->downgrade(grant_); }

std::vector<LockWaiter> Lock::waiters() const {
  auto record = core_->store->status(name());
  return record ? std::move(record->waiters) : std::vector<LockWaiter>{};
}

Release Lock::release() noexcept {
  if (!released_) released_ = core_->release(grant_);
  return *released_;
}

}  // namespace leasehold::inline v0
