#include "locks/acquire.hpp"

#include <spdlog/logger.h>

#include <algorithm>

#include "leasehold/errors.hpp"
#include "locks/validation.hpp"
#include "support/random.hpp"
#include "support/sleep.hpp"

namespace leasehold::inline v0 {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// How long we try to leave a line that we cannot reach.
constexpr milliseconds longest_care{600'000};

ClaimMode claim_mode(OnConflict strategy) {
  switch (strategy) {
    case OnConflict::steal_stale:
      return ClaimMode::if_silent;
    case OnConflict::force:
      return ClaimMode::always;
    default:
      return ClaimMode::if_free;
  }
}

Backoff conflict_backoff(const LockOptions& options) {
  return {options.retry.first, options.retry.longest, options.retry.factor};
}

}  // namespace

milliseconds heartbeat_interval(const LockOptions& options) {
  if (options.heartbeat == Heartbeat::manual) return milliseconds{0};
  return options.heartbeat_every > milliseconds{0} ? options.heartbeat_every : options.ttl / 3;
}

milliseconds promised_interval(const LockOptions& options) {
  const milliseconds every = heartbeat_interval(options);
  const bool only_one = options.max_hold > milliseconds{0} && options.max_hold <= options.ttl;
  return only_one ? std::max(every, options.max_hold) : every;
}

Lease::TimePoint acquire_deadline(Lease::TimePoint started, const LockOptions& options) {
  if (options.on_conflict == OnConflict::fail_fast) return started;
  return options.wait == LockOptions::forever ? Lease::TimePoint::max() : started + options.wait;
}

AcquireCall::AcquireCall(std::shared_ptr<LockCore> core, std::string_view name,
                         const LockOptions& options, std::stop_token stop, LockWish wish)
    : core_(std::move(core)),
      name_(name),
      options_(options),
      stop_(std::move(stop)),
      wish_(wish),
      metadata_(metadata_json(options)),
      ttl_(first_ttl(options.ttl, options.max_hold)),
      heartbeat_every_(heartbeat_interval(options)),
      started_(steady_clock::now()),
      deadline_(acquire_deadline(started_, options)),
      owner_(random_hex(16)),
      conflict_backoff_(conflict_backoff(options)),
      error_backoff_(milliseconds{10}, milliseconds{500}) {}

AcquireCall::~AcquireCall() {
  if (waiting_) core_->telemetry.waiting(-1);
}

Acquisition AcquireCall::run() {
  core_->telemetry.record({.type = LockEventType::claiming, .name = name_});
  core_->start_listening();
  try {
    for (;;) {
      if (auto lock = reenter()) return Acquisition{std::move(*lock)};
      const auto outcome = attempt();
      if (!outcome) return refuse(RefusalReason::cancelled);
      if (const auto* grant = std::get_if<LockGrant>(&*outcome)) {
        if (auto lock = accept(*grant)) return Acquisition{std::move(*lock)};
        if (!may_claim_anew()) return refuse(RefusalReason::cancelled);
        continue;
      }
      note_conflict(std::get<LockConflict>(*outcome));
      if (time_left() <= milliseconds{0}) return refuse(RefusalReason::busy);
      if (stands_in_line()) {
        if (!wait_in_line()) return refuse(RefusalReason::cancelled);
        continue;
      }
      if (retries_ >= options_.retry.retries) return refuse(RefusalReason::busy);
      if (!sleep(std::min(conflict_backoff_.next(), time_left()))) {
        return refuse(RefusalReason::cancelled);
      }
      ++retries_;
      core_->telemetry.record({.type = LockEventType::retried, .name = name_});
    }
  } catch (...) {
    withdraw();
    core_->telemetry.record({.type = LockEventType::failed, .name = name_, .elapsed = elapsed()});
    throw;
  }
}

/// Shares the grant of an earlier handle of this client, if there is one and it is wanted.
std::optional<Lock> AcquireCall::reenter() {
  if (options_.reentry == Reentry::refused) return std::nullopt;
  auto lock = core_->reenter(name_, wish_.kind, retries_);
  if (!lock) return std::nullopt;
  withdraw();  // the place in the line, if it stood there meanwhile
  core_->telemetry.record(
      {.type = LockEventType::reentered, .name = name_, .token = lock->token()});
  return lock;
}

bool AcquireCall::stands_in_line() const {
  return options_.on_conflict == OnConflict::wait ||
         options_.on_conflict == OnConflict::steal_stale;
}

/// From now on messages of the store are heard, and claims join the line.
void AcquireCall::sit_down() {
  seat_.emplace(core_->waiting_room, name_, owner_);
  queued_at_ = steady_clock::now();
}

/// Sleeps until there is a reason to look. False if the caller's stop token fired.
bool AcquireCall::wait_in_line() {
  if (!seat_) {
    sit_down();
    return true;  // the next attempt joins the line
  }
  if (holder_->remaining > milliseconds{0}) {
    seat_->expect_end(steady_clock::now() + holder_->remaining);
  }
  TimePoint until = deadline_;
  if (options_.on_conflict == OnConflict::steal_stale) {
    until = std::min(until, steady_clock::now() + silent_in());
  }
  if (options_.reentry == Reentry::allowed) {
    // The lock may come to this process by another thread, of which no store will tell.
    until = std::min(until, steady_clock::now() + milliseconds{100});
  }
  seat_->wait(until, stop_);
  return !stop_.stop_requested();
}

/// When the holder may count as silent. Silence makes no noise: the one who wants to profit from it
/// has to look.
milliseconds AcquireCall::silent_in() const {
  // By then the next holder, of which nobody tells those who wait, can be silent.
  const milliseconds longest = std::max(options_.steal_after, milliseconds{1'000});
  if (holder_->kind == LockKind::shared) return longest;
  const milliseconds silent_for = holder_->heartbeat_age;
  if (silent_for < options_.steal_after) {
    return std::clamp(options_.steal_after - silent_for, milliseconds{20}, longest);
  }
  // Long enough for us, but it has not missed two of its heartbeats yet: those that it promised are
  // as a rule a third of its ttl apart.
  return std::clamp(2 * holder_->ttl / 3 - silent_for, milliseconds{100}, milliseconds{1'000});
}

/// Asks the store until it answers. Nothing if the caller's stop token fired.
std::optional<ClaimOutcome> AcquireCall::attempt() {
  // A reply was lost: whatever ends this, that attempt may have been granted.
  bool in_doubt = false;
  for (;;) {
    if (stop_.stop_requested()) return std::nullopt;
    // Before the call: latency must shorten trust. And if replies were lost it is the first of
    // those attempts that counts: the grant may be as old as that.
    const TimePoint sent = unanswered_since_.value_or(steady_clock::now());
    try {
      auto outcome = ask();
      sent_ = sent;
      unanswered_since_.reset();
      return outcome;
    } catch (const OutcomeUnknown&) {
      in_doubt = true;
      unanswered_since_ = sent;
      if (++lost_replies_ >= most_lost_replies && !may_try_again_after_error()) throw;
    } catch (const Unavailable& error) {
      const bool ends = !may_try_again_after_error();
      if (ends && in_doubt) throw OutcomeUnknown(error.what());
      if (ends) throw;
    } catch (const ServerRefused& error) {
      unanswered_since_ = sent;  // a script that failed half way may have got as far as the lock
      const bool ends = !error.transient() || !may_try_again_after_error();
      if (ends && in_doubt) throw OutcomeUnknown(error.what());
      if (ends) throw;
    }
    if (!sleep(std::min(error_backoff_.next(), time_left() + milliseconds{1}))) return std::nullopt;
  }
}

ClaimOutcome AcquireCall::ask() {
  const bool may_be_free = !holder_ && !seat_ && wish_.kind == LockKind::exclusive;
  if (may_be_free) {
    if (const auto token = core_->store->take_free(make_claim())) return LockGrant{.token = *token};
    // Straight into the line, without a look at the lock first.
    if (stands_in_line() && time_left() > milliseconds{0}) sit_down();
  }
  return core_->store->claim(make_claim());
}

LockClaim AcquireCall::make_claim() const {
  LockClaim claim;
  claim.name = name_;
  claim.owner = owner_;
  claim.metadata = metadata_;
  claim.ttl = ttl_;
  claim.heartbeat_every = promised_interval(options_);
  claim.mode = claim_mode(options_.on_conflict);
  claim.steal_after = options_.steal_after;
  if (options_.reentry == Reentry::allowed) claim.adoption = Adoption::allowed;
  claim.kind = wish_.kind;
  claim.permits = wish_.permits;
  if (holder_) claim.permit_count = PermitCount::is_known;  // not the first attempt
  if (seat_) claim.join = options_.queueing == Queueing::barging ? Join::head : Join::tail;
  claim.priority = options_.priority;
  claim.place = place_;
  return claim;
}

bool AcquireCall::may_try_again_after_error() const { return time_left() > milliseconds{0}; }

/// Nothing, and the grant is given back, if nobody waits for it any more or so much time has passed
/// that it can no longer be trusted.
std::optional<Lock> AcquireCall::accept(const LockGrant& grant) {
  LeaseTerms terms{.name = name_,
                   .owner = owner_,
                   .metadata = metadata_,
                   .ttl = options_.ttl,
                   .heartbeat_every = heartbeat_every_,
                   .max_hold = options_.max_hold,
                   .reentrant = options_.reentry == Reentry::allowed,
                   .kind = wish_.kind,
                   .on_lost = options_.on_lost};
  if (stop_.stop_requested() || steady_clock::now() >= Lease::trusted_until(terms, sent_)) {
    unanswered_since_ = sent_;
    withdraw();
    return std::nullopt;
  }
  Lock lock = core_->hold(std::move(terms), grant, sent_, retries_);
  report(grant);
  seat_.reset();
  return lock;
}

/// After a grant that was given back. False if the caller's stop token fired; throws if the time to
/// wait is over.
bool AcquireCall::may_claim_anew() {
  if (stop_.stop_requested()) return false;
  if (time_left() <= milliseconds{0}) {
    throw Unavailable(core_->store->where() + ": answers more slowly than a ttl of " +
                      std::to_string(ttl_.count()) + " ms allows");
  }
  // The old one may have to be released in the background: that must not hit the new grant.
  owner_ = random_hex(16);
  return sleep(std::min(error_backoff_.next(), time_left() + milliseconds{1}));
}

void AcquireCall::report(const LockGrant& grant) {
  const auto tell = [&](LockEventType type) {
    core_->telemetry.record(
        {.type = type, .name = name_, .token = grant.token, .elapsed = elapsed()});
  };
  tell(LockEventType::acquired);
  if (grant.kind == GrantKind::handed) {
    core_->telemetry.record({.type = LockEventType::handover,
                             .name = name_,
                             .token = grant.token,
                             .elapsed = std::chrono::duration_cast<std::chrono::microseconds>(
                                 steady_clock::now() - queued_at_)});
  }
  if (!grant.previous) return;
  if (grant.previous->state == LockState::stale) tell(LockEventType::stale_seen);
  tell(grant.kind == GrantKind::forced ? LockEventType::forced : LockEventType::takeover);
  core_->logger->info("lock taken over name={} token={} previous_runner={} previous_token={}",
                      name_, grant.token.value, grant.previous->runner,
                      grant.previous->token.value);
}

void AcquireCall::note_conflict(const LockConflict& conflict) {
  holder_ = conflict.holder;
  if (place_ == 0 && conflict.place != 0) {
    core_->telemetry.record({.type = LockEventType::queued, .name = name_});
  }
  place_ = conflict.place;
  if (waiting_) return;
  waiting_ = true;
  core_->telemetry.waiting(+1);
  core_->telemetry.record({.type = LockEventType::contended, .name = name_});
}

bool AcquireCall::sleep(milliseconds pause) { return sleep_for(pause, stop_); }

milliseconds AcquireCall::time_left() const {
  if (deadline_ == TimePoint::max()) return milliseconds::max() / 2;
  return std::chrono::ceil<milliseconds>(deadline_ - steady_clock::now());
}

Acquisition AcquireCall::refuse(RefusalReason reason) {
  withdraw();
  core_->telemetry.record({.type = LockEventType::failed, .name = name_, .elapsed = elapsed()});
  Refusal refusal{.reason = reason, .holder = holder_, .retries = retries_};
  if (holder_)
    refusal.retry_after = std::clamp(holder_->remaining, milliseconds{1}, milliseconds{1'000});
  return Acquisition{std::move(refusal)};
}

/// An attempt whose reply was lost may have been granted after all, and so may one that stands in
/// line: whatever the store knows of this call is taken back.
void AcquireCall::withdraw() noexcept {
  if (!unanswered_since_ && !seat_) return;
  // A grant ends by itself, a place in the line does not.
  const auto care = seat_ ? std::max(ttl_, longest_care) : ttl_;
  unanswered_since_.reset();
  seat_.reset();
  try {
    core_->store->release(name_, owner_);
  } catch (const std::exception&) {
    core_->janitor.release_later(name_, owner_, steady_clock::now() + care);
  }
}

std::chrono::microseconds AcquireCall::elapsed() const {
  return std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now() - started_);
}

}  // namespace leasehold::inline v0
