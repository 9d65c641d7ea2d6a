#include "locks/keep_alive.hpp"

#include <spdlog/logger.h>

#include <algorithm>
#include <utility>

#include "leasehold/errors.hpp"
#include "locks/janitor.hpp"
#include "locks/telemetry.hpp"
#include "support/random.hpp"

namespace leasehold::inline v0 {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

// A renewal that has hardly any time left is still given this much.
constexpr milliseconds shortest_timeout{10};

// Word of losses is kept for leases that are on their way to us. Most are of leases that ended.
constexpr std::size_t most_early_losses = 64;

bool is_automatic(const Lease& lease) { return lease.terms().heartbeat_every > milliseconds{0}; }

/// After a heartbeat that failed: often enough to find a server that is back, within the lease.
milliseconds retry_pause(const Lease& lease) {
  const auto full =
      std::clamp(lease.terms().heartbeat_every / 8, milliseconds{5}, milliseconds{500});
  return milliseconds{static_cast<milliseconds::rep>(static_cast<double>(full.count()) *
                                                     (0.5 + random_share() / 2))};
}

}  // namespace

KeepAlive::KeepAlive(LockStore& store, Janitor& janitor, LockTelemetry& telemetry,
                     std::shared_ptr<spdlog::logger> logger, milliseconds longest_renewal)
    : store_(store),
      janitor_(janitor),
      telemetry_(telemetry),
      logger_(std::move(logger)),
      longest_renewal_(std::max(longest_renewal, shortest_timeout)),
      timer_([this](const std::stop_token& stop) { run_timer(stop); }),
      renewer_([this](const std::stop_token& stop) { run_renewer(stop); }) {}

KeepAlive::~KeepAlive() {
  timer_.request_stop();
  renewer_.request_stop();
  timer_.join();
  renewer_.join();
}

void KeepAlive::watch(const std::shared_ptr<Lease>& lease) {
  LossReason lost_already = LossReason::none;
  {
    const std::lock_guard guard(mutex_);
    if (is_automatic(*lease)) ++automatic_;
    schedule(lease);
    if (lease->granted_at() <= deaf_until_) {
      verify_ = true;
      due_changed_.notify_one();
    }
    std::erase_if(early_losses_, [&](const auto& loss) {
      if (loss.first != lease->terms().owner) return false;
      lost_already = loss.second;
      return true;
    });
  }
  if (lost_already != LossReason::none) lose(lease, lost_already);
}

void KeepAlive::forget(const std::shared_ptr<Lease>& lease) {
  const std::lock_guard guard(mutex_);
  unschedule(*lease);
  if (is_automatic(*lease)) --automatic_;
}

void KeepAlive::reschedule(const std::shared_ptr<Lease>& lease) {
  const std::lock_guard guard(mutex_);
  unschedule(*lease);
  if (lease->state() == Lease::State::held) schedule(lease);
}

std::size_t KeepAlive::active() const {
  const std::lock_guard guard(mutex_);
  return automatic_;
}

void KeepAlive::lose(const std::shared_ptr<Lease>& lease, LossReason reason) {
  if (!lease->end_lost(reason)) return;
  forget(lease);
  telemetry_.record({.type = LockEventType::lost,
                     .name = lease->name(),
                     .token = lease->token(),
                     .elapsed = lease->held_for(),
                     .reason = reason});
  logger_->warn("lock lost name={} token={} reason={}", lease->name(), lease->token().value,
                to_string(reason));
  tokens_.announce([lease] { lease->fire_lost(); });
  auto on_lost = lease->take_on_lost();
  if (!on_lost) return;
  callbacks_.announce([lease, logger = logger_, on_lost = std::move(on_lost)] {
    lease->fire_lost();  // if the other thread has not yet: the token comes first
    try {
      on_lost({lease->name(), lease->token(), lease->loss_reason()});
    } catch (const std::exception& error) {
      logger->error("on_lost callback threw name={} error=\"{}\"", lease->name(), error.what());
    } catch (...) {
      logger->error("on_lost callback threw name={} error=\"not a std::exception\"", lease->name());
    }
  });
}

void KeepAlive::lose(std::string_view owner, LossReason reason) {
  std::shared_ptr<Lease> found;
  {
    // Rare enough to search for it: every lease is on at least one agenda.
    const std::lock_guard guard(mutex_);
    for (const auto* agenda : {&renewals_, &give_ups_}) {
      for (const auto& [when, lease] : *agenda) {
        if (lease->terms().owner == owner) found = lease;
      }
    }
    if (!found) {
      early_losses_.emplace_back(owner, reason);
      if (early_losses_.size() > most_early_losses) early_losses_.pop_front();
    }
  }
  if (found) lose(found, reason);
}

void KeepAlive::verify_all() {
  const std::lock_guard guard(mutex_);
  deaf_until_ = steady_clock::now();
  verify_ = true;
  due_changed_.notify_one();
}

KeepAlive::Batch KeepAlive::all_leases() const {
  Batch all;
  for (const auto& [when, lease] : renewals_) all.push_back(lease);
  for (const auto& [when, lease] : give_ups_) {
    if (!lease->renewal_entry) all.push_back(lease);
  }
  return all;
}

/// Puts a lease that was just granted or renewed on the agenda.
void KeepAlive::schedule(const std::shared_ptr<Lease>& lease) {
  if (is_automatic(*lease)) {
    schedule_retry(lease, lease->heartbeat_due());
  } else {
    lease->give_up_entry = give_ups_.emplace(lease->give_up_at(), lease);
    wake_timer_for(lease->give_up_at());
  }
}

void KeepAlive::schedule_retry(const std::shared_ptr<Lease>& lease, TimePoint when) {
  lease->renewal_entry = renewals_.emplace(when, lease);
  wake_timer_for(when);
}

void KeepAlive::unschedule(Lease& lease) {
  if (lease.renewal_entry) renewals_.erase(*lease.renewal_entry);
  if (lease.give_up_entry) give_ups_.erase(*lease.give_up_entry);
  lease.renewal_entry.reset();
  lease.give_up_entry.reset();
}

/// Locks come and go far more often than heartbeats are due: the timer is only woken if it would
/// sleep too long.
void KeepAlive::wake_timer_for(TimePoint when) {
  if (when < timer_wakes_at_) timer_changed_.notify_one();
}

void KeepAlive::run_timer(const std::stop_token& stop) {
  std::unique_lock guard(mutex_);
  while (!stop.stop_requested()) {
    const TimePoint now = steady_clock::now();
    take_due(now);
    const Batch hopeless = take_hopeless(now);
    if (!hopeless.empty()) {
      guard.unlock();
      for (const auto& lease : hopeless) {
        const bool limited = lease->terms().max_hold > milliseconds{0} && !lease->next_renewal();
        lose(lease, limited ? LossReason::max_hold : LossReason::expired);
      }
      guard.lock();
      continue;
    }
    timer_wakes_at_ = TimePoint::max();
    if (!renewals_.empty()) timer_wakes_at_ = renewals_.begin()->first;
    if (!give_ups_.empty()) timer_wakes_at_ = std::min(timer_wakes_at_, give_ups_.begin()->first);
    const TimePoint planned = timer_wakes_at_;
    timer_changed_.wait_until(guard, stop, planned, [&] {
      // an entry that is due earlier than planned
      return (!renewals_.empty() && renewals_.begin()->first < planned) ||
             (!give_ups_.empty() && give_ups_.begin()->first < planned);
    });
  }
}

/// Hands the leases whose heartbeat is due to the renewer, together with those that are due soon:
/// one round trip for all instead of one each. From now on the timer watches their trust.
void KeepAlive::take_due(TimePoint now) {
  if (renewals_.empty() || renewals_.begin()->first > now) return;
  const auto soon = now + renewals_.begin()->second->terms().heartbeat_every / 8;
  while (!renewals_.empty() && renewals_.begin()->first <= soon) {
    const auto lease = renewals_.begin()->second;
    renewals_.erase(renewals_.begin());
    lease->renewal_entry.reset();
    if (!lease->give_up_entry) lease->give_up_entry = give_ups_.emplace(lease->give_up_at(), lease);
    due_.push_back(lease);
  }
  due_changed_.notify_one();
}

KeepAlive::Batch KeepAlive::take_hopeless(TimePoint now) {
  Batch hopeless;
  while (!give_ups_.empty() && give_ups_.begin()->first <= now) {
    const auto lease = give_ups_.begin()->second;
    unschedule(*lease);
    if (lease->give_up_at() > now) {
      schedule(lease);  // renewed meanwhile
    } else {
      hopeless.push_back(lease);
    }
  }
  return hopeless;
}

void KeepAlive::run_renewer(const std::stop_token& stop) {
  std::unique_lock guard(mutex_);
  while (due_changed_.wait(guard, stop, [this] { return !due_.empty() || verify_; })) {
    const Batch batch = std::exchange(due_, {});
    const Batch doubtful = std::exchange(verify_, false) ? all_leases() : Batch{};
    guard.unlock();
    renew(batch);
    verify(doubtful);
    guard.lock();
  }
}

void KeepAlive::renew(const Batch& batch) {
  Batch leases;
  std::vector<LockRenewal> renewals;
  leases.reserve(batch.size());
  renewals.reserve(batch.size());
  const TimePoint sent = steady_clock::now();  // before the call: latency must shorten trust
  TimePoint first_give_up = TimePoint::max();
  for (const auto& lease : batch) {
    if (lease->state() != Lease::State::held) continue;
    auto renewal = lease->next_renewal();
    if (!renewal) continue;  // max_hold: trust runs out, the timer sees to it
    first_give_up = std::min(first_give_up, lease->give_up_at());
    leases.push_back(lease);
    renewals.push_back(std::move(*renewal));
  }
  if (leases.empty()) return;

  // No longer than the first of them is trusted: a reply after that would come too late.
  const auto timeout = std::clamp(std::chrono::duration_cast<milliseconds>(first_give_up - sent),
                                  shortest_timeout, longest_renewal_);
  try {
    store_.renew(renewals, timeout);
  } catch (const std::exception& error) {
    for (auto& renewal : renewals) {
      if (renewal.result == RenewalResult::failed) renewal.error = error.what();
    }
  }
  for (std::size_t i = 0; i < leases.size(); ++i) {
    const auto& lease = leases[i];
    if (apply_heartbeat(lease, renewals[i], sent, "heartbeat") != Ownership::unknown) continue;
    const std::lock_guard guard(mutex_);
    // One that was given up or released meanwhile stays off the agenda.
    if (lease->state() != Lease::State::held || !lease->give_up_entry) continue;
    schedule_retry(lease, steady_clock::now() + retry_pause(*lease));
  }
}

void KeepAlive::verify(const Batch& batch) {
  if (batch.empty()) return;
  std::vector<LockGrantId> grants;
  grants.reserve(batch.size());
  for (const auto& lease : batch) grants.push_back({lease->name(), lease->terms().owner});
  std::vector<Standing> standings;
  try {
    standings = store_.verify(grants, longest_renewal_);
  } catch (const std::exception& error) {
    // The next heartbeats will tell.
    logger_->info("locks not verified number={} error=\"{}\"", batch.size(), error.what());
  }
  for (std::size_t i = 0; i < standings.size(); ++i) {
    if (standings[i] == Standing::vanished) lose(batch[i], LossReason::vanished);
    if (standings[i] == Standing::taken) lose(batch[i], LossReason::taken);
  }
}

Ownership KeepAlive::apply(const std::shared_ptr<Lease>& lease, const LockRenewal& renewal,
                           TimePoint sent) {
  switch (renewal.result) {
    case RenewalResult::renewed:
      lease->renewed(renewal, sent);
      if (lease->lapsed()) lose(lease, LossReason::expired);  // somebody was told so meanwhile
      reschedule(lease);
      if (lease->state() != Lease::State::lost) return Ownership::held;
      // The answer came after we had given up, and nobody uses the lease that it prolonged.
      janitor_.release_later(lease->name(), lease->terms().owner, sent + renewal.ttl);
      return Ownership::lost;
    case RenewalResult::vanished:
    case RenewalResult::taken:
      if (!lease->believes(renewal)) return Ownership::unknown;
      lose(lease,
           renewal.result == RenewalResult::taken ? LossReason::taken : LossReason::vanished);
      return Ownership::lost;
    case RenewalResult::failed:
      break;
  }
  return Ownership::unknown;
}

Ownership KeepAlive::apply_heartbeat(const std::shared_ptr<Lease>& lease,
                                     const LockRenewal& renewal, TimePoint sent,
                                     std::string_view what) {
  const Ownership ownership = apply(lease, renewal, sent);
  const auto record = [&](LockEventType type) {
    telemetry_.record({.type = type, .name = lease->name(), .token = lease->token()});
  };
  if (renewal.result == RenewalResult::renewed) record(LockEventType::heartbeat);
  if (ownership == Ownership::unknown) {
    record(LockEventType::heartbeat_failed);
    logger_->info("{} failed name={} token={} error=\"{}\"", what, lease->name(),
                  lease->token().value, renewal.error);
  }
  return ownership;
}

}  // namespace leasehold::inline v0
