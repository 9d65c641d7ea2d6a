#pragma once

#include <deque>
#include <stop_token>
#include <string_view>
#include <vector>

#include "leasehold/export.hpp"
#include "leasehold/lock.hpp"

namespace leasehold::inline v0 {

/// Several locks that are held together. Move-only; the destructor releases them all.
///
/// Thread safety: as Lock.
class LEASEHOLD_API LockSet {
 public:
  LockSet(LockSet&&) noexcept = default;
  LockSet& operator=(LockSet&& other) noexcept;
  /// Releases, in one round trip. Does not throw, and waits no longer than the destructor of one
  /// Lock, however many they are.
  ~LockSet();

  /// Sorted by name.
  std::vector<Lock>& locks() noexcept { return locks_; }
  const std::vector<Lock>& locks() const noexcept { return locks_; }

  /// Throws std::out_of_range if it is none of them.
  const Lock& at(std::string_view name) const;

  /// Whether every one of them is held and trusted at this moment.
  bool valid() const noexcept;

  /// Fires when any of them is lost.
  std::stop_token lost() const noexcept { return lost_.get_token(); }

  /// Releases all of them. `done` if all were ours until now, else the worst answer.
  Release release() noexcept;

 private:
  friend class AcquireAllCall;
  /// All of one client.
  explicit LockSet(std::vector<Lock> locks);

  struct PassOn {
    std::stop_source to;
    void operator()() noexcept { to.request_stop(); }
  };

  std::vector<Lock> locks_;
  std::stop_source lost_;
  std::deque<std::stop_callback<PassOn>> losses_;  // of each lock, passed on to lost_
};

using SetAcquisition = BasicAcquisition<LockSet>;

}  // namespace leasehold::inline v0
