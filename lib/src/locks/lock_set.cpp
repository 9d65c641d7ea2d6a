#include "leasehold/lock_set.hpp"

#include <algorithm>
#include <stdexcept>

#include "locks/lock_core.hpp"

namespace leasehold::inline v0 {

LockSet::LockSet(std::vector<Lock> locks) : locks_(std::move(locks)) {
  for (const Lock& lock : locks_) losses_.emplace_back(lock.lost(), PassOn{lost_});
}

LockSet& LockSet::operator=(LockSet&& other) noexcept {
  if (this == &other) return *this;
  release();
  locks_ = std::move(other.locks_);
  lost_ = std::move(other.lost_);
  losses_ = std::move(other.losses_);
  return *this;
}

LockSet::~LockSet() { release(); }

const Lock& LockSet::at(std::string_view name) const {
  const auto found = std::find_if(locks_.begin(), locks_.end(),
                                  [&](const Lock& lock) { return lock.name() == name; });
  if (found == locks_.end()) throw std::out_of_range("LockSet: no lock " + std::string(name));
  return *found;
}

bool LockSet::valid() const noexcept {
  return std::all_of(locks_.begin(), locks_.end(), [](const Lock& lock) { return lock.valid(); });
}

Release LockSet::release() noexcept {
  Release worst = Release::done;
  for (Lock& lock : locks_) {
    if (!lock.core_) continue;  // moved away by the caller
    if (!lock.released_) lock.core_->release_all(locks_);
    if (lock.released_ == Release::was_lost || worst == Release::done) worst = *lock.released_;
  }
  return worst;
}

}  // namespace leasehold::inline v0
