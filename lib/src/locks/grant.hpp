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
#include "support/boot_clock.hpp"

namespace leasehold::inline v0 {

/// The ttl with which a lock is granted. max_hold limits it; 0 means no limit.
std::chrono::milliseconds first_ttl(std::chrono::milliseconds ttl,
                                    std::chrono::milliseconds max_hold) noexcept;

/// What the caller asked for, and what the keep-alive needs to know.
struct GrantTerms {
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

/// One holder's time-limited hold of a lock, shared by the caller's handles and the keep-alive. It
/// ends once, and for good: held → released, or held → lost.
///
/// Thread-safe, except for the members that say who guards them.
class Grant {
 public:
  using TimePoint = BootClock::time_point;
  enum class State { held, released, lost };

  /// Until when a grant is trusted whose request left at `sent`. Counted from then, because the
  /// time that the reply took must shorten trust.
  static TimePoint trusted_until(const GrantTerms& terms, TimePoint sent) noexcept;

  Grant(GrantTerms terms, const Granted& granted, TimePoint sent);

  const GrantTerms& terms() const noexcept { return terms_; }
  const std::string& name() const noexcept { return terms_.name; }
  FencingToken token() const noexcept { return token_; }
  const std::optional<LockRecord>& took_over_from() const noexcept { return took_over_from_; }

  /// As granted, or shared after a downgrade.
  LockKind kind() const noexcept { return kind_.load(); }

  /// While a downgrade is under way, or its outcome is unknown, nobody knows which kind the store
  /// has. What it answers to a renewal sent in that time must not be believed.
  /// Returns whether an earlier attempt is still undecided.
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

  /// Once it has returned false it always does, even if a renewal is answered later.
  bool valid() const noexcept;
  /// Whether valid() returned false because time had run out. The loss may not be announced yet.
  bool lapsed() const noexcept { return lapsed_.load(); }

  std::chrono::microseconds held_for() const noexcept;

  /// When the request left that was granted.
  TimePoint granted_at() const noexcept { return granted_at_; }

  /// When to announce the loss: as long before valid_until() as that is before the end in the
  /// store.
  TimePoint give_up_at() const noexcept;

  /// When the next heartbeat is due.
  TimePoint heartbeat_due() const noexcept;

  /// The next heartbeat, to be sent now. Nothing if `max_hold` allows no more.
  std::optional<LockRenewal> next_renewal() const;

  /// A renewal for as long as the terms allow, even if that is no longer than the present one.
  LockRenewal renewal_at(TimePoint now) const;

  /// The store accepted `renewal`, which was sent at `sent`.
  void renewed(const LockRenewal& renewal, TimePoint sent) noexcept;

  /// The answer to a renewal was lost: the store may have prolonged the grant, now or later.
  void renewal_unanswered() noexcept { perhaps_prolonged_.store(true); }
  bool perhaps_prolonged() const noexcept { return perhaps_prolonged_.load(); }

  /// Ends the grant. False if it has ended already.
  bool end_released() noexcept;
  bool end_lost(LossReason reason) noexcept;

  /// Fires the stop token, after end_lost().
  void fire_lost() noexcept { lost_.request_stop(); }

  /// The caller's callback, for the thread that ended the grant. It is called after a loss, and
  /// must be destroyed on a thread that may destroy what the callback owns, which may be the
  /// client.
  std::function<void(const LockLoss&)> take_on_lost() noexcept;
  std::stop_token lost_token() const noexcept { return lost_.get_token(); }

  /// Its entries on the agenda of the keep-alive, guarded by KeepAlive::mutex_. (An annotation
  /// cannot name the mutex of another object.)
  using Agenda = std::multimap<TimePoint, std::shared_ptr<Grant>>;
  std::optional<Agenda::iterator> renewal_entry;
  std::optional<Agenda::iterator> give_up_entry;

  /// How many handles share it, guarded by LockCore::reentrant_mutex_.
  int handles = 1;

 private:
  std::chrono::milliseconds ttl_from(TimePoint now) const noexcept;
  bool end(State state) noexcept;

  GrantTerms terms_;  // does not change, except for the callback
  const std::chrono::milliseconds margin_;
  const FencingToken token_;
  const std::optional<LockRecord> took_over_from_;
  const TimePoint granted_at_;

  std::atomic<LockKind> kind_;
  std::atomic<bool> downgrading_{false};
  std::atomic<bool> perhaps_prolonged_{false};
  std::atomic<State> state_{State::held};
  mutable std::atomic<bool> lapsed_{false};  // valid() has returned false
  std::atomic<LossReason> reason_{LossReason::none};
  std::atomic<TimePoint> valid_until_;
  std::atomic<std::uint64_t> renewals_{0};
  std::stop_source lost_;
};

}  // namespace leasehold::inline v0
