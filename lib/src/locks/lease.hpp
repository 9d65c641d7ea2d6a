#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "leasehold/lock.hpp"
#include "locks/lock_store.hpp"

namespace leasehold::inline v0 {

/// The ttl of the grant itself: max_hold, if there is one, limits that too.
std::chrono::milliseconds first_ttl(std::chrono::milliseconds ttl,
                                    std::chrono::milliseconds max_hold) noexcept;

/// What a caller wants of a grant, and what the keep-alive needs of it.
struct LeaseTerms {
  std::string name;
  std::string owner;
  std::string metadata;  ///< JSON
  std::chrono::milliseconds ttl{0};
  std::chrono::milliseconds heartbeat_every{0};  ///< 0: manual
  std::chrono::milliseconds max_hold{0};         ///< 0: no limit
  bool reentrant = false;
  LockKind kind = LockKind::exclusive;
  std::function<void(const LockLoss&)> on_lost;
};

/// One grant of a lock: shared by the handles of the caller and the keep-alive. Its end is final
/// and happens once: held → released, or held → lost.
///
/// Thread-safe, but for the parts that say who protects them.
class Lease {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  enum class State { held, released, lost };

  /// Until when a grant can be trusted whose request left at `sent`: what the reply took shortens
  /// our trust.
  static TimePoint trusted_until(const LeaseTerms& terms, TimePoint sent) noexcept;

  Lease(LeaseTerms terms, const LockGrant& grant, TimePoint sent);

  const LeaseTerms& terms() const noexcept { return terms_; }
  const std::string& name() const noexcept { return terms_.name; }
  FencingToken token() const noexcept { return token_; }
  const std::optional<LockRecord>& took_over_from() const noexcept { return took_over_from_; }

  /// As granted, or shared after a downgrade.
  LockKind kind() const noexcept { return kind_.load(); }

  /// Between begin and end nobody knows which kind it is: what the store says of a renewal that was
  /// sent meanwhile is not to be believed.
  /// Returns whether an earlier attempt is undecided still.
  bool begin_downgrade() noexcept { return downgrading_.exchange(true); }
  void cancel_downgrade() noexcept { downgrading_.store(false); }
  void end_downgrade() noexcept {
    kind_.store(LockKind::shared);
    downgrading_.store(false);
  }
  bool believes(const LockRenewal& renewal) const noexcept {
    return !downgrading_.load() && renewal.kind == kind_.load();
  }

  State state() const noexcept { return state_.load(std::memory_order_acquire); }
  LossReason loss_reason() const noexcept;
  TimePoint valid_until() const noexcept;

  /// False for ever once it was false, even if the answer to a renewal comes in later.
  bool valid() const noexcept;
  /// Whether valid() said no because time had run out. Nobody may have been told of a loss yet.
  bool lapsed() const noexcept { return lapsed_.load(); }

  std::chrono::microseconds held_for() const noexcept;

  /// When the request that was granted left.
  TimePoint granted_at() const noexcept { return granted_at_; }

  /// When to announce the loss: as long before valid_until() as that is before the server's end.
  TimePoint give_up_at() const noexcept;

  /// When the next heartbeat is due: a third, or so, into the lease.
  TimePoint heartbeat_due() const noexcept;

  /// The next heartbeat, to be sent now. Nothing if `max_hold` allows no further one.
  std::optional<LockRenewal> next_renewal() const;

  /// A renewal in any case, for as long as the terms allow.
  LockRenewal renewal_at(TimePoint now) const;

  /// The store granted `renewal`, which was sent at `sent`.
  void renewed(const LockRenewal& renewal, TimePoint sent) noexcept;

  /// Ends the lease. False if it has ended already.
  bool end_released() noexcept;
  bool end_lost(LossReason reason) noexcept;

  /// Fires the stop token, after end_lost().
  void fire_lost() noexcept { lost_.request_stop(); }

  /// The caller's callback, for whoever ended the lease: to be called after a loss, and in any case
  /// to be destroyed by a thread that may destroy whatever the callback owns, even the client.
  std::function<void(const LockLoss&)> take_on_lost() noexcept;
  std::stop_token lost_token() const noexcept { return lost_.get_token(); }

  /// Where the keep-alive has it on its agenda; protected by the keep-alive.
  using Agenda = std::multimap<TimePoint, std::shared_ptr<Lease>>;
  std::optional<Agenda::iterator> renewal_entry;
  std::optional<Agenda::iterator> give_up_entry;

  /// Handles that share it; protected by the registry of re-entrant leases.
  int handles = 1;

 private:
  std::chrono::milliseconds ttl_from(TimePoint now) const noexcept;
  bool end(State state) noexcept;

  LeaseTerms terms_;  // but for the callback it does not change
  const std::chrono::milliseconds margin_;
  const FencingToken token_;
  const std::optional<LockRecord> took_over_from_;
  const TimePoint granted_at_;

  std::atomic<LockKind> kind_;
  std::atomic<bool> downgrading_{false};
  std::atomic<State> state_{State::held};
  mutable std::atomic<bool> lapsed_{false};  // what valid() has told
  std::atomic<LossReason> reason_{LossReason::none};
  std::atomic<TimePoint> valid_until_;
  std::atomic<std::uint64_t> renewals_{0};
  std::stop_source lost_;
};

}  // namespace leasehold::inline v0
