#include "locks/acquire.hpp"

#include <spdlog/logger.h>

#include <algorithm>

#include "leasehold/errors.hpp"
#include "locks/validation.hpp"
#include "support/log_event.hpp"
#include "support/random.hpp"
#include "support/sleep.hpp"

namespace leasehold::inline v0 {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// How long to go on trying to leave a line while the store is unreachable. An offer or a grant
// ends by itself, a place in the line does not.
constexpr milliseconds time_to_leave_line{600'000};

AcquireMode acquire_mode(OnConflict strategy) {
  switch (strategy) {
    case OnConflict::steal_stale:
      return AcquireMode::if_silent;
    case OnConflict::force:
      return AcquireMode::always;
    default:
      return AcquireMode::if_free;
  }
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

AcquireCall::AcquireCall(std::shared_ptr<LockCore> core, std::string_view name,
                         const LockOptions& options, std::stop_token stop, LockWish wish)
    : core_(std::move(core)),
      name_(name),
      options_(options),
      wish_(wish),
      metadata_(metadata_json(options)),
      ttl_(first_ttl(options.ttl, options.max_hold)),
      attempts_(options, std::move(stop)),
      conflict_backoff_(options.retry.first, options.retry.longest, options.retry.factor),
      owner_(random_hex(16)) {}

AcquireCall::~AcquireCall() {
  if (counted_as_waiting_) core_->telemetry.waiting(-1);
}

Acquisition AcquireCall::run() {
  core_->prepare(options_.on_lost != nullptr);
  core_->telemetry.record({.type = LockEventType::acquiring, .name = name_});
  try {
    for (;;) {
      if (auto lock = reenter()) return Acquisition{std::move(*lock)};
      const auto outcome = attempts_.until_answered(
          [this] {
            // Taken before the call: latency must shorten trust. If replies were lost, the first of
            // those attempts counts, because the grant may be as old as that.
            sent_ = unanswered_since_.value_or(BootClock::now());
            asked_at_ = steady_clock::now();
            return core_->store->acquire(make_request());
          },
          [this] { unanswered_since_ = sent_; }, [this](milliseconds time) { rest(time); });
      if (!outcome) return refuse(RefusalReason::cancelled);
      unanswered_since_.reset();
      if (const auto* granted = std::get_if<Granted>(&*outcome)) {
        if (auto lock = accept(*granted)) return Acquisition{std::move(*lock)};
        if (attempts_.pause_after_slow_answer(core_->store->where(), ttl_)) continue;
        return refuse(RefusalReason::cancelled);
      }
      note_conflict(std::get<Conflict>(*outcome));
      if (attempts_.is_over() || is_out_of_retries()) return refuse(RefusalReason::busy);
      const bool goes_on = waits_in_line() ? wait_in_line() : wait_for_retry();
      if (!goes_on) return refuse(RefusalReason::cancelled);
    }
  } catch (...) {
    withdraw();
    core_->telemetry.record(
        {.type = LockEventType::failed, .name = name_, .elapsed = attempts_.elapsed()});
    throw;
  }
}

/// Shares the grant of an earlier handle of this client, if there is one and the caller allows it.
std::optional<Lock> AcquireCall::reenter() {
  if (options_.reentry == Reentry::refused) return std::nullopt;
  auto lock = core_->reenter(name_, wish_.kind, retries_);
  if (!lock) return std::nullopt;
  withdraw();  // it may stand in line
  core_->telemetry.record(
      {.type = LockEventType::reentered, .name = name_, .token = lock->token()});
  return lock;
}

AcquireRequest AcquireCall::make_request() {
  AcquireRequest request;
  request.name = name_;
  request.owner = owner_;
  request.metadata = metadata_;
  request.ttl = ttl_;
  request.heartbeat_every = promised_interval(options_);
  request.mode = acquire_mode(options_.on_conflict);
  request.steal_after = options_.steal_after;
  if (options_.reentry == Reentry::allowed) request.adoption = Adoption::allowed;
  request.kind = wish_.kind;
  request.permits = wish_.permits;
  if (holder_ || seat_) request.attempt = Attempt::later;
  if (waits_in_line() && attempts_.may_wait()) {
    request.join = options_.queueing == Queueing::barging ? Join::head : Join::tail;
    if (!seat_) request.before_joining = [this] { sit_down(); };
  }
  request.priority = options_.priority;
  request.place = place_;
  return request;
}

/// Nothing, and the grant is given back, if the caller has cancelled or so much time has passed
/// that the grant can no longer be trusted.
std::optional<Lock> AcquireCall::accept(const Granted& granted) {
  GrantTerms terms{.name = name_,
                   .owner = owner_,
                   .metadata = metadata_,
                   .ttl = options_.ttl,
                   .heartbeat_every = heartbeat_interval(options_),
                   .max_hold = options_.max_hold,
                   .reentrant = options_.reentry == Reentry::allowed,
                   .kind = wish_.kind,
                   .on_lost = options_.on_lost};
  if (attempts_.stopped() || BootClock::now() >= Grant::trusted_until(terms, sent_)) {
    unanswered_since_ = sent_;
    withdraw();
    // A new owner: if the old grant has to be released in the background, that must not hit the
    // next one.
    owner_ = random_hex(16);
    return std::nullopt;
  }
  Lock lock = core_->hold(std::move(terms), granted, sent_, retries_);
  report(granted);
  seat_.reset();
  return lock;
}

void AcquireCall::report(const Granted& granted) {
  const auto record = [&](LockEventType type, std::chrono::microseconds elapsed) {
    core_->telemetry.record(
        {.type = type, .name = name_, .token = granted.token, .elapsed = elapsed});
  };
  const auto elapsed = attempts_.elapsed();
  record(LockEventType::acquired, elapsed);
  if (granted.kind == GrantKind::handed) {
    record(LockEventType::handover,
           std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now() - queued_at_));
  }
  if (!granted.previous) return;
  if (granted.previous->state == LockState::stale) record(LockEventType::stale_seen, elapsed);
  record(granted.kind == GrantKind::forced ? LockEventType::forced : LockEventType::takeover,
         elapsed);
  log_info(*core_->logger, "lock taken over",
           {{"name", name_},
            {"token", granted.token.value},
            {"previous_runner", granted.previous->runner},
            {"previous_token", granted.previous->token.value}});
}

void AcquireCall::note_conflict(const Conflict& conflict) {
  holder_ = conflict.holder;
  if (place_ == 0 && conflict.place != 0) {
    core_->telemetry.record({.type = LockEventType::queued, .name = name_});
  }
  place_ = conflict.place;
  alone_ = conflict.alone;
  if (counted_as_waiting_) return;
  counted_as_waiting_ = true;
  core_->telemetry.waiting(+1);
  core_->telemetry.record({.type = LockEventType::contended, .name = name_});
}

bool AcquireCall::waits_in_line() const {
  return options_.on_conflict == OnConflict::wait ||
         options_.on_conflict == OnConflict::steal_stale;
}

/// From now on messages of the store are heard.
void AcquireCall::sit_down() {
  seat_.emplace(core_->waiting_room, name_, owner_);
  // A waiter that does not hear when its turn comes is passed over, and others overtake it.
  core_->wait_until_heard(attempts_.deadline(), attempts_.stop());
  // What was asked for so far was not granted. So the time that this took need not shorten trust.
  if (!unanswered_since_) sent_ = BootClock::now();
  queued_at_ = steady_clock::now();
}

/// Sleeps until there is a reason to ask the store again. False if the caller's stop token fired.
bool AcquireCall::wait_in_line() {
  std::optional<Deadline> end;
  if (holder_->remaining > milliseconds{0}) end = steady_clock::now() + holder_->remaining;
  seat_->note_line(end, alone_, asked_at_);
  Deadline until = attempts_.deadline();
  if (options_.on_conflict == OnConflict::steal_stale) {
    until = std::min(until, steady_clock::now() + silent_in());
  }
  if (options_.reentry == Reentry::allowed) {
    // Another thread of this process may acquire the lock; the store sends no message about that.
    until = std::min(until, steady_clock::now() + milliseconds{100});
  }
  seat_->wait(until, attempts_.stop());
  return !attempts_.stopped();
}

/// Pauses after an error. One that stands in line hears when it is offered the lock.
void AcquireCall::rest(milliseconds time) {
  if (seat_) {
    seat_->rest(steady_clock::now() + time, attempts_.stop());
  } else {
    sleep_for(time, attempts_.stop());
  }
}

bool AcquireCall::is_out_of_retries() const {
  return !waits_in_line() && retries_ >= options_.retry.retries;
}

/// False if the caller's stop token fired.
bool AcquireCall::wait_for_retry() {
  if (!attempts_.sleep(conflict_backoff_.next())) return false;
  ++retries_;
  core_->telemetry.record({.type = LockEventType::retried, .name = name_});
  return true;
}

/// When the holder may count as silent. The store sends no message when it does, so that the waiter
/// has to look.
milliseconds AcquireCall::silent_in() const {
  // By then another holder may have followed and be silent. Waiters are not told of a new holder.
  const milliseconds longest = std::max(options_.steal_after, milliseconds{1'000});
  if (holder_->kind == LockKind::shared) return longest;
  const milliseconds silent_for = holder_->heartbeat_age;
  if (silent_for < options_.steal_after) {
    return std::clamp(options_.steal_after - silent_for, milliseconds{20}, longest);
  }
  // Silent for long enough for us, but it has not missed two of its heartbeats yet. These are
  // usually a third of its ttl apart.
  return std::clamp(2 * holder_->ttl / 3 - silent_for, milliseconds{100}, milliseconds{1'000});
}

Acquisition AcquireCall::refuse(RefusalReason reason) {
  withdraw();
  core_->telemetry.record(
      {.type = LockEventType::failed, .name = name_, .elapsed = attempts_.elapsed()});
  Refusal refusal{.reason = reason, .holder = holder_, .retries = retries_};
  if (holder_) {
    refusal.retry_after = std::clamp(holder_->remaining, milliseconds{1}, milliseconds{1'000});
  }
  return Acquisition{std::move(refusal)};
}

/// Takes back whatever the store knows of this call: an attempt whose reply was lost may have been
/// granted, and so may one that stands in line.
void AcquireCall::withdraw() noexcept {
  if (!unanswered_since_ && !seat_) return;
  const auto longest = seat_ ? std::max(ttl_, time_to_leave_line) : ttl_;
  unanswered_since_.reset();
  seat_.reset();
  const GrantId grant{name_, owner_};
  core_->take_back({&grant, 1}, BootClock::now() + longest);
}

}  // namespace leasehold::inline v0
