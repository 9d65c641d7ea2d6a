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
  /// Releases all of them in one round trip. Does not throw, and waits no longer than the
  /// destructor of a single Lock.
  ~LockSet();

  /// Sorted by name.
  std::vector<Lock>& locks() noexcept { return locks_; }
  const std::vector<Lock>& locks() const noexcept { return locks_; }

  /// The lock with this name. Throws std::out_of_range if the set does not contain it.
  const Lock& at(std::string_view name) const;

  /// Whether all of them are held and trusted at this moment. Asks no server.
  bool valid() const noexcept;

  /// Fires when any of them is lost.
  std::stop_token lost() const noexcept { return lost_.get_token(); }

  /// Releases all of them. Returns `done` if all were held until now, otherwise the worst answer.
  Release release() noexcept;

 private:
  friend class AcquireAllCall;
  /// The locks belong to one client.
  explicit LockSet(std::vector<Lock> locks);

  struct PassOn {
    std::stop_source to;
    void operator()() noexcept { to.request_stop(); }
  };

  std::vector<Lock> locks_;
  std::stop_source lost_;
  std::deque<std::stop_callback<PassOn>> losses_;  // each passes the loss of one lock on to lost_
};

using SetAcquisition = BasicAcquisition<LockSet>;

}  // namespace leasehold::inline v0
