#include "locks/lock_core.hpp"

#include <spdlog/logger.h>

#include "leasehold/errors.hpp"
#include "support/default_logger.hpp"
#include "support/log_event.hpp"

namespace leasehold::inline v0 {
namespace {

/// `asked_before`: the reply to an earlier request was lost. If the lock is gone while nobody else
/// could have ended the grant, then that request released it.
Release to_release(ReleaseResult result, const Grant& grant, bool asked_before) {
  if (result == ReleaseResult::released) return Release::done;
  if (!asked_before) return Release::was_lost;
  const bool was_us = result != ReleaseResult::taken || BootClock::now() < grant.valid_until();
  return was_us ? Release::done : Release::unknown;
}

}  // namespace

LockCore::LockCore(std::unique_ptr<LockStore> its_store, RunnerId its_runner,
                   const LockClientOptions& options)
    : runner(std::move(its_runner)),
      logger(options.logger ? options.logger : default_logger()),
      store(std::move(its_store)),
      telemetry(options.observer),
      janitor(*store, logger),
      keep_alive(*store, janitor, telemetry, logger, store->timeout()),
      waiting_room(*store, logger) {}

void LockCore::prepare(bool callbacks) {
  keep_alive.prepare(callbacks);
  janitor.resume();
  std::call_once(listening_, [this] {
    listener_ = store->listen([this](const LockMessage& message) { hear(message); });
    if (!listener_) waiting_room.set_hears(false);
  });
}

void LockCore::hear(const LockMessage& message) {
  switch (message.type) {
    case LockMessage::Type::granted:
      // A waiter that has left gives its offer back, but that may have come before the offer.
      if (!waiting_room.wake(message.owner)) janitor.decline_later(message.name, message.owner);
      break;
    case LockMessage::Type::taken:
      keep_alive.lose(message.owner, LossReason::taken);
      break;
    case LockMessage::Type::vanished:
      keep_alive.lose(message.owner, LossReason::vanished);
      break;
    case LockMessage::Type::awaited:
      break;  // of interest to the store only
    case LockMessage::Type::crowded:
      waiting_room.show_in(message.name);
      break;
    case LockMessage::Type::reset:
      waiting_room.set_hears(true);
      waiting_room.wake_all();
      keep_alive.verify_all();
      break;
  }
}

Lock LockCore::hold(GrantTerms terms, const Granted& granted, Grant::TimePoint sent, int retries) {
  const bool reentrant = terms.reentrant;
  auto grant = std::make_shared<Grant>(std::move(terms), granted, sent);
  keep_alive.watch(grant);
  if (reentrant) {
    const ThreadLock lock(reentrant_mutex_);
    reentrant_.insert_or_assign(grant->name(), grant);
  }
  return {shared_from_this(), std::move(grant), false, retries};
}

std::optional<Lock> LockCore::reenter(const std::string& name, LockKind kind, int retries) {
  const ThreadLock lock(reentrant_mutex_);
  const auto found = reentrant_.find(name);
  if (found == reentrant_.end() || !found->second->valid()) return std::nullopt;
  if (found->second->kind() != kind) return std::nullopt;
  ++found->second->handles;
  return Lock{shared_from_this(), found->second, true, retries};
}

/// Returns whether it was the last one.
bool LockCore::drop_handle(Grant& grant) {
  if (!grant.terms().reentrant) return true;
  const ThreadLock lock(reentrant_mutex_);
  if (--grant.handles > 0) return false;
  const auto found = reentrant_.find(grant.name());
  if (found != reentrant_.end() && found->second.get() == &grant) reentrant_.erase(found);
  return true;
}

Release LockCore::release(const std::shared_ptr<Grant>& grant) noexcept {
  if (const auto answer = end(grant)) return *answer;
  try {
    return release_grant(*grant);
  } catch (const std::exception& error) {
    release_later(*grant, error.what());
    return Release::unknown;
  }
}

void LockCore::release_all(std::span<Lock> locks) noexcept {
  std::vector<Lock*> open;
  std::vector<GrantId> grants;
  for (Lock& lock : locks) {
    if (!lock.grant_ || lock.released_) continue;
    lock.released_ = end(lock.grant_);
    if (lock.released_) continue;
    open.push_back(&lock);
    grants.push_back({lock.grant_->name(), lock.grant_->terms().owner});
  }
  if (open.empty()) return;
  try {
    bool asked_before = false;
    std::vector<ReleaseResult> results;
    try {
      results = store->release_all(grants);
    } catch (const OutcomeUnknown&) {
      asked_before = true;
      results = store->release_all(grants);
    }
    for (std::size_t i = 0; i < open.size(); ++i) {
      open[i]->released_ = to_release(results[i], *open[i]->grant_, asked_before);
    }
  } catch (const std::exception& error) {
    for (Lock* lock : open) {
      release_later(*lock->grant_, error.what());
      lock->released_ = Release::unknown;
    }
  }
}

/// Ends the grant on our side. Returns the answer if the store need not be asked.
std::optional<Release> LockCore::end(const std::shared_ptr<Grant>& grant) noexcept {
  if (!drop_handle(*grant)) return grant->valid() ? Release::done : Release::was_lost;
  telemetry.record(
      {.type = LockEventType::releasing, .name = grant->name(), .token = grant->token()});
  if (!grant->end_released()) return Release::was_lost;
  keep_alive.forget(grant);  // before the release: no heartbeat may follow it
  // Destroyed here and not by a renewal under way, which would run on the wrong thread.
  const auto unused_callback = grant->take_on_lost();
  telemetry.record({.type = LockEventType::released,
                    .name = grant->name(),
                    .token = grant->token(),
                    .elapsed = grant->held_for()});
  return std::nullopt;
}

void LockCore::take_back(std::span<const GrantId> grants, Grant::TimePoint until) noexcept {
  try {
    store->release_all(grants);
  } catch (const std::exception&) {
    for (const GrantId& grant : grants) {
      janitor.release_later(std::string(grant.name), std::string(grant.owner), until);
    }
  }
}

void LockCore::release_later(const Grant& grant, const char* error) noexcept {
  log_warn(*logger, "lock not released yet",
           {{"name", grant.name()}, {"token", grant.token().value}, {"error", error}});
  janitor.release_later(grant.name(), grant.terms().owner, grant.valid_until());
}

/// Throws if the store could not be asked.
Release LockCore::release_grant(const Grant& grant) {
  const auto ask = [&] { return store->release(grant.name(), grant.terms().owner); };
  try {
    return to_release(ask(), grant, false);
  } catch (const OutcomeUnknown&) {
    return to_release(ask(), grant, true);
  }
}

Ownership LockCore::downgrade(const std::shared_ptr<Grant>& grant) {
  if (!grant->valid()) {
    keep_alive.lose(grant, LossReason::expired);  // if the timer has not seen it yet
    return Ownership::lost;
  }
  if (grant->kind() == LockKind::shared) return Ownership::held;
  bool may_have_happened = grant->begin_downgrade();
  const auto sent = BootClock::now();
  LockRenewal renewal = grant->renewal_at(sent);
  try {
    try {
      renewal.result = store->downgrade(renewal);
    } catch (const OutcomeUnknown&) {
      may_have_happened = true;
      renewal.result = store->downgrade(renewal);  // repeating it is safe
    }
  } catch (const Error& error) {
    log_info(*logger, "downgrade failed",
             {{"name", grant->name()}, {"token", grant->token().value}, {"error", error.what()}});
    const bool was_sent = dynamic_cast<const Unavailable*>(&error) == nullptr;
    if (!was_sent && !may_have_happened) grant->cancel_downgrade();
    return Ownership::unknown;
  }
  if (renewal.result == RenewalResult::renewed) {
    grant->end_downgrade();
  } else {
    grant->cancel_downgrade();  // the answer is about the exclusive grant: it is believed
  }
  return keep_alive.apply_renewal(grant, renewal, sent);
}

Ownership LockCore::extend(const std::shared_ptr<Grant>& grant) {
  if (!grant->valid()) {
    keep_alive.lose(grant, LossReason::expired);  // if the timer has not seen it yet
    return Ownership::lost;
  }
  const auto sent = BootClock::now();
  auto renewal = grant->next_renewal();
  if (!renewal) return Ownership::held;  // it reaches as far as max_hold allows
  keep_alive.send({&*renewal, 1}, store->timeout());
  return keep_alive.apply_heartbeat(grant, *renewal, sent, "extend failed");
}

}  // namespace leasehold::inline v0
