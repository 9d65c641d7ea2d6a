#include "locks/grant.hpp"

#include <algorithm>
#include <utility>

#include "support/trust_margin.hpp"

namespace leasehold::inline v0 {
namespace {

using std::chrono::milliseconds;

// A shorter renewal is not worth a heartbeat.
constexpr milliseconds shortest_renewal{10};

}  // namespace

milliseconds first_ttl(milliseconds ttl, milliseconds max_hold) noexcept {
  return max_hold > milliseconds{0} ? std::min(ttl, max_hold) : ttl;
}

Grant::Grant(GrantTerms terms, const Granted& granted, TimePoint sent)
    : terms_(std::move(terms)),
      margin_(trust_margin(first_ttl(terms_.ttl, terms_.max_hold))),
      token_(granted.token),
      took_over_from_(granted.previous),
      granted_at_(sent),
      kind_(terms_.kind),
      valid_until_(trusted_until(terms_, sent)) {}

Grant::TimePoint Grant::trusted_until(const GrantTerms& terms, TimePoint sent) noexcept {
  const milliseconds ttl = first_ttl(terms.ttl, terms.max_hold);
  return sent + ttl - trust_margin(ttl);
}

milliseconds Grant::ttl_from(TimePoint now) const noexcept {
  if (terms_.max_hold == milliseconds{0}) return terms_.ttl;
  const auto left = std::chrono::floor<milliseconds>(granted_at_ + terms_.max_hold - now);
  return std::min(terms_.ttl, left);
}

LossReason Grant::loss_reason() const noexcept {
  return state() == State::lost ? reason_.load(std::memory_order_acquire) : LossReason::none;
}

Grant::TimePoint Grant::valid_until() const noexcept {
  return valid_until_.load(std::memory_order_acquire);
}

bool Grant::valid() const noexcept {
  if (state() != State::held || lapsed_.load()) return false;
  if (BootClock::now() < valid_until()) return true;
  lapsed_.store(true);
  return false;
}

std::chrono::microseconds Grant::held_for() const noexcept {
  return std::chrono::duration_cast<std::chrono::microseconds>(BootClock::now() - granted_at_);
}

Grant::TimePoint Grant::give_up_at() const noexcept { return valid_until() - margin_; }

Grant::TimePoint Grant::heartbeat_due() const noexcept {
  const auto sent = valid_until() + margin_ - terms_.ttl;
  return sent + terms_.heartbeat_every;
}

std::optional<LockRenewal> Grant::next_renewal() const {
  const TimePoint now = BootClock::now();
  const milliseconds ttl = ttl_from(now);
  if (terms_.max_hold > milliseconds{0}) {
    const bool reaches_further = now + ttl - margin_ > valid_until() + milliseconds{1};
    if (ttl < shortest_renewal || !reaches_further) return std::nullopt;
  }
  return renewal_at(now);
}

LockRenewal Grant::renewal_at(TimePoint now) const {
  const milliseconds ttl = ttl_from(now);
  LockRenewal renewal;
  renewal.name = terms_.name;
  renewal.owner = terms_.owner;
  renewal.metadata = terms_.metadata;
  renewal.token = token_;
  renewal.kind = kind();
  renewal.ttl = ttl;
  renewal.heartbeat_every = terms_.heartbeat_every;
  // After the last renewal that max_hold allows the holder must not count as silent.
  const bool limited = terms_.max_hold > milliseconds{0};
  if (limited && now + ttl >= granted_at_ + terms_.max_hold - milliseconds{1}) {
    renewal.heartbeat_every = std::max(renewal.heartbeat_every, ttl);
  }
  renewal.renewals = renewals_.load(std::memory_order_relaxed) + 1;
  renewal.held = std::chrono::duration_cast<milliseconds>(now - granted_at_);
  return renewal;
}

void Grant::renewed(const LockRenewal& renewal, TimePoint sent) noexcept {
  renewals_.store(renewal.renewals, std::memory_order_relaxed);
  const TimePoint until = sent + renewal.ttl - margin_;
  // Two renewals may overlap (extend() and a heartbeat): the one that reaches further counts.
  TimePoint known = valid_until();
  while (known < until && !valid_until_.compare_exchange_weak(known, until)) {
  }
}

bool Grant::end(State state) noexcept {
  State expected = State::held;
  return state_.compare_exchange_strong(expected, state, std::memory_order_acq_rel);
}

bool Grant::end_released() noexcept { return end(State::released); }

bool Grant::end_lost(LossReason reason) noexcept {
  LossReason none = LossReason::none;
  reason_.compare_exchange_strong(none, reason, std::memory_order_acq_rel);
  return end(State::lost);
}

std::function<void(const LockLoss&)> Grant::take_on_lost() noexcept {
  return std::exchange(terms_.on_lost, nullptr);
}

}  // namespace leasehold::inline v0
