#include "locks/keep_alive.hpp"

#include <spdlog/logger.h>

#include <algorithm>
#include <utility>

#include "leasehold/errors.hpp"
#include "locks/janitor.hpp"
#include "locks/telemetry.hpp"
#include "support/log_event.hpp"
#include "support/random.hpp"
#include "support/start_thread.hpp"

namespace leasehold::inline v0 {

using std::chrono::milliseconds;

namespace {

// The least time that a renewal is given, even if trust ends sooner.
constexpr milliseconds shortest_timeout{10};

// Of the renewer of a server that has none of our locks any more.
constexpr std::chrono::minutes longest_idleness{1};

// Losses are remembered for grants whose reply is still on its way. Most are of grants that have
// ended, so that a few are enough.
constexpr std::size_t most_early_losses = 64;

bool is_automatic(const Grant& grant) { return grant.terms().heartbeat_every > milliseconds{0}; }

/// The pause after a heartbeat that failed: short enough to find a store that is back in time.
milliseconds retry_pause(const Grant& grant) {
  const auto full =
      std::clamp(grant.terms().heartbeat_every / 8, milliseconds{5}, milliseconds{500});
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
      main_renewer_(renewers_[""]),
      timer_(start_thread("that watches locks",
                          [this](const std::stop_token& stop) { run_timer(stop); })) {
  auto thread =
      start_thread("that renews locks", [this](const std::stop_token& stop) { run_renewer(stop); });
  const ThreadLock lock(mutex_);
  main_renewer_.working = true;
  main_renewer_.thread = std::move(thread);
}

KeepAlive::~KeepAlive() {
  timer_.request_stop();
  timer_.join();  // first, because it starts renewers
  std::vector<std::jthread> threads;
  {
    const ThreadLock lock(mutex_);
    for (auto& [server, renewer] : renewers_) threads.push_back(std::move(renewer.thread));
  }
  for (std::jthread& thread : threads) thread.request_stop();
}

void KeepAlive::prepare(bool callbacks) {
  if (!prepared_.load(std::memory_order_acquire)) {
    tokens_.start();
    prepared_.store(true, std::memory_order_release);
  }
  if (callbacks) callbacks_.start();
}

void KeepAlive::watch(const std::shared_ptr<Grant>& grant) {
  LossReason lost_already = LossReason::none;
  {
    const ThreadLock lock(mutex_);
    if (is_automatic(*grant)) ++automatic_;
    schedule(grant);
    if (grant->granted_at() <= deaf_until_) {
      verify_ = true;
      main_renewer_.changed.notify_one();
    }
    std::erase_if(early_losses_, [&](const auto& loss) {
      if (loss.first != grant->terms().owner) return false;
      lost_already = loss.second;
      return true;
    });
  }
  if (lost_already != LossReason::none) lose(grant, lost_already);
}

void KeepAlive::forget(const std::shared_ptr<Grant>& grant) {
  const ThreadLock lock(mutex_);
  unschedule(*grant);
  if (is_automatic(*grant)) --automatic_;
}

void KeepAlive::reschedule(const std::shared_ptr<Grant>& grant) {
  const ThreadLock lock(mutex_);
  unschedule(*grant);
  if (grant->state() == Grant::State::held) schedule(grant);
}

std::size_t KeepAlive::active() const {
  const ThreadLock lock(mutex_);
  return automatic_;
}

void KeepAlive::lose(const std::shared_ptr<Grant>& grant, LossReason reason) {
  if (!grant->end_lost(reason)) return;
  forget(grant);
  telemetry_.record({.type = LockEventType::lost,
                     .name = grant->name(),
                     .token = grant->token(),
                     .elapsed = grant->held_for(),
                     .reason = reason});
  log_warn(
      *logger_, "lock lost",
      {{"name", grant->name()}, {"token", grant->token().value}, {"reason", to_string(reason)}});
  tokens_.announce([grant] { grant->fire_lost(); });
  release_remains(*grant);
  auto on_lost = grant->take_on_lost();
  if (!on_lost) return;
  callbacks_.announce([grant, logger = logger_, on_lost = std::move(on_lost)] {
    grant->fire_lost();  // the token comes first, even if its own thread is late
    try {
      on_lost({grant->name(), grant->token(), grant->loss_reason()});
    } catch (const std::exception& error) {
      log_error(*logger, "on_lost callback threw",
                {{"name", grant->name()}, {"error", error.what()}});
    } catch (...) {
      log_error(*logger, "on_lost callback threw",
                {{"name", grant->name()}, {"error", "not a std::exception"}});
    }
  });
}

void KeepAlive::release_remains(const Grant& grant) {
  if (!grant.perhaps_prolonged()) return;
  janitor_.release_later(grant.name(), grant.terms().owner, BootClock::now() + grant.terms().ttl);
}

void KeepAlive::lose(std::string_view owner, LossReason reason) {
  std::shared_ptr<Grant> found;
  {
    // A search is fine because this is rare. Every grant is on at least one agenda.
    const ThreadLock lock(mutex_);
    for (const auto* agenda : {&renewals_, &give_ups_}) {
      for (const auto& [when, grant] : *agenda) {
        if (grant->terms().owner == owner) found = grant;
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
  const ThreadLock lock(mutex_);
  deaf_until_ = BootClock::now();
  verify_ = true;
  main_renewer_.changed.notify_one();
}

KeepAlive::Batch KeepAlive::all_grants() const {
  Batch all;
  for (const auto& [when, grant] : renewals_) all.push_back(grant);
  for (const auto& [when, grant] : give_ups_) {
    if (!grant->renewal_entry) all.push_back(grant);
  }
  return all;
}

/// Puts a grant that was just granted or renewed on the agenda.
void KeepAlive::schedule(const std::shared_ptr<Grant>& grant) {
  if (is_automatic(*grant)) {
    schedule_renewal(grant, grant->heartbeat_due());
  } else {
    grant->give_up_entry = give_ups_.emplace(grant->give_up_at(), grant);
    wake_timer_for(grant->give_up_at());
  }
}

void KeepAlive::schedule_renewal(const std::shared_ptr<Grant>& grant, TimePoint when) {
  grant->renewal_entry = renewals_.emplace(when, grant);
  wake_timer_for(when);
}

void KeepAlive::unschedule(Grant& grant) {
  if (grant.renewal_entry) renewals_.erase(*grant.renewal_entry);
  if (grant.give_up_entry) give_ups_.erase(*grant.give_up_entry);
  grant.renewal_entry.reset();
  grant.give_up_entry.reset();
}

/// Locks come and go far more often than heartbeats are due, so the timer is only woken if it would
/// sleep too long.
void KeepAlive::wake_timer_for(TimePoint when) {
  if (when < timer_wakes_at_) timer_changed_.notify_one();
}

void KeepAlive::run_timer(const std::stop_token& stop) {
  ThreadLock lock(mutex_);
  while (!stop.stop_requested()) {
    const TimePoint now = BootClock::now();
    take_due(now);
    const Batch hopeless = take_hopeless(now);
    if (!hopeless.empty()) {
      lock.unlock();
      for (const auto& grant : hopeless) {
        const bool limited = grant->terms().max_hold > milliseconds{0} && !grant->next_renewal();
        lose(grant, limited ? LossReason::max_hold : LossReason::expired);
      }
      lock.lock();
      continue;
    }
    const TimePoint planned = timer_wakes_at_ = next_entry();
    const auto has_earlier = [&]() LEASEHOLD_REQUIRES(mutex_) { return next_entry() < planned; };
    if (planned == TimePoint::max()) {
      timer_changed_.wait(lock, stop, has_earlier);
    } else {
      timer_changed_.wait_until(lock, stop, sleep_until(planned), has_earlier);
    }
  }
}

/// When the timer has something to do.
KeepAlive::TimePoint KeepAlive::next_entry() const {
  TimePoint next = TimePoint::max();
  if (!renewals_.empty()) next = renewals_.begin()->first;
  if (!give_ups_.empty()) next = std::min(next, give_ups_.begin()->first);
  return next;
}

/// Hands the grants whose heartbeat is due to the renewer, together with those that are due soon,
/// so that all take one round trip. From now on the timer watches their trust.
void KeepAlive::take_due(TimePoint now) {
  if (renewals_.empty() || renewals_.begin()->first > now) return;
  const auto soon = now + renewals_.begin()->second->terms().heartbeat_every / 8;
  while (!renewals_.empty() && renewals_.begin()->first <= soon) {
    const auto grant = renewals_.begin()->second;
    renewals_.erase(renewals_.begin());
    grant->renewal_entry.reset();
    if (!grant->give_up_entry) grant->give_up_entry = give_ups_.emplace(grant->give_up_at(), grant);
    Renewer& renewer = renewer_of(*grant);
    if (renewer.due.empty()) renewer.changed.notify_one();
    renewer.due.push_back(grant);
  }
}

/// The one that talks to the server of this lock; its thread runs.
KeepAlive::Renewer& KeepAlive::renewer_of(const Grant& grant) {
  Renewer& renewer = renewers_[store_.server_of(grant.name())];
  if (renewer.working) return renewer;
  try {
    renewer.thread = start_thread("that renews the locks of a server",
                                  [this, &renewer](const std::stop_token& stop) {
                                    run_renewer_of_one_server(stop, renewer);
                                  });
  } catch (const Unavailable&) {
    return main_renewer_;
  }
  renewer.working = true;
  return renewer;
}

KeepAlive::Batch KeepAlive::take_hopeless(TimePoint now) {
  Batch hopeless;
  while (!give_ups_.empty() && give_ups_.begin()->first <= now) {
    const auto grant = give_ups_.begin()->second;
    unschedule(*grant);
    if (grant->give_up_at() > now) {
      schedule(grant);  // renewed meanwhile
    } else {
      hopeless.push_back(grant);
    }
  }
  return hopeless;
}

void KeepAlive::run_renewer(const std::stop_token& stop) {
  ThreadLock lock(mutex_);
  const auto has_work = [this]() LEASEHOLD_REQUIRES(mutex_) {
    return !main_renewer_.due.empty() || verify_;
  };
  while (main_renewer_.changed.wait(lock, stop, has_work)) {
    const Batch batch = std::exchange(main_renewer_.due, {});
    const Batch doubtful = std::exchange(verify_, false) ? all_grants() : Batch{};
    lock.unlock();
    renew(batch);
    verify(doubtful);
    lock.lock();
  }
}

/// Ends when it has had nothing to do for a while: servers come and go.
void KeepAlive::run_renewer_of_one_server(const std::stop_token& stop, Renewer& renewer) {
  ThreadLock lock(mutex_);
  const auto has_work = [&renewer] { return !renewer.due.empty(); };
  while (renewer.changed.wait_for(lock, stop, longest_idleness, has_work)) {
    const Batch batch = std::exchange(renewer.due, {});
    lock.unlock();
    renew(batch);
    lock.lock();
  }
  renewer.working = false;
}

void KeepAlive::renew(const Batch& batch) {
  Batch grants;
  std::vector<LockRenewal> renewals;
  grants.reserve(batch.size());
  renewals.reserve(batch.size());
  const TimePoint sent = BootClock::now();  // before the call: latency must shorten trust
  TimePoint first_give_up = TimePoint::max();
  for (const auto& grant : batch) {
    if (grant->state() != Grant::State::held) continue;
    auto renewal = grant->next_renewal();
    if (!renewal) continue;  // max_hold: trust runs out, and the timer announces it
    first_give_up = std::min(first_give_up, grant->give_up_at());
    grants.push_back(grant);
    renewals.push_back(std::move(*renewal));
  }
  if (grants.empty()) return;

  // No longer than the first of them is trusted: a later reply would be of no use.
  const auto timeout = std::clamp(std::chrono::duration_cast<milliseconds>(first_give_up - sent),
                                  shortest_timeout, longest_renewal_);
  send(renewals, timeout);
  for (std::size_t i = 0; i < grants.size(); ++i) {
    const auto& grant = grants[i];
    if (apply_heartbeat(grant, renewals[i], sent, "heartbeat failed") != Ownership::unknown)
      continue;
    const ThreadLock lock(mutex_);
    // One that was given up or released meanwhile stays off the agenda.
    if (grant->state() != Grant::State::held || !grant->give_up_entry) continue;
    schedule_renewal(grant, BootClock::now() + retry_pause(*grant));
  }
}

void KeepAlive::send(std::span<LockRenewal> renewals, milliseconds timeout) {
  bool unanswered = false;
  std::string why;
  try {
    store_.renew(renewals, timeout);
    return;
  } catch (const OutcomeUnknown& error) {
    unanswered = true;
    why = error.what();
  } catch (const std::exception& error) {
    why = error.what();
  }
  for (LockRenewal& renewal : renewals) {
    if (renewal.result != RenewalResult::failed || !renewal.error.empty()) continue;
    renewal.error = why;
    renewal.unanswered = unanswered;
  }
}

void KeepAlive::verify(const Batch& batch) {
  if (batch.empty()) return;
  std::vector<GrantId> grants;
  grants.reserve(batch.size());
  for (const auto& grant : batch) grants.push_back({grant->name(), grant->terms().owner});
  std::vector<Standing> standings;
  try {
    standings = store_.verify(grants, longest_renewal_);
  } catch (const std::exception& error) {
    // The next heartbeats find out.
    log_info(*logger_, "locks not verified", {{"number", batch.size()}, {"error", error.what()}});
  }
  for (std::size_t i = 0; i < standings.size(); ++i) {
    if (standings[i] == Standing::vanished) lose(batch[i], LossReason::vanished);
    if (standings[i] == Standing::taken) lose(batch[i], LossReason::taken);
  }
}

Ownership KeepAlive::apply_renewal(const std::shared_ptr<Grant>& grant, const LockRenewal& renewal,
                                   TimePoint sent) {
  switch (renewal.result) {
    case RenewalResult::renewed:
      grant->renewed(renewal, sent);
      if (grant->lapsed()) lose(grant, LossReason::expired);  // somebody was told so meanwhile
      reschedule(grant);
      if (grant->state() != Grant::State::lost) return Ownership::held;
      // The answer came after we had given up, and nobody uses the grant that it prolonged.
      janitor_.release_later(grant->name(), grant->terms().owner, sent + renewal.ttl);
      return Ownership::lost;
    case RenewalResult::vanished:
    case RenewalResult::taken:
      if (!grant->believes(renewal)) return Ownership::unknown;
      lose(grant,
           renewal.result == RenewalResult::taken ? LossReason::taken : LossReason::vanished);
      return Ownership::lost;
    case RenewalResult::failed:
      if (renewal.unanswered) grant->renewal_unanswered();
      if (grant->state() == Grant::State::lost) release_remains(*grant);
      break;
  }
  return Ownership::unknown;
}

Ownership KeepAlive::apply_heartbeat(const std::shared_ptr<Grant>& grant,
                                     const LockRenewal& renewal, TimePoint sent,
                                     EventName failure) {
  const Ownership ownership = apply_renewal(grant, renewal, sent);
  const auto record = [&](LockEventType type) {
    telemetry_.record({.type = type, .name = grant->name(), .token = grant->token()});
  };
  if (renewal.result == RenewalResult::renewed) record(LockEventType::heartbeat);
  if (ownership == Ownership::unknown) {
    record(LockEventType::heartbeat_failed);
    log_info(*logger_, failure,
             {{"name", grant->name()}, {"token", grant->token().value}, {"error", renewal.error}});
  }
  return ownership;
}

}  // namespace leasehold::inline v0
