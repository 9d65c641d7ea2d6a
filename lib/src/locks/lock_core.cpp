#include "locks/lock_core.hpp"

#include <spdlog/logger.h>

#include "leasehold/errors.hpp"
#include "support/default_logger.hpp"

namespace leasehold::inline v0 {
namespace {

using std::chrono::steady_clock;

/// `asked_before`: the reply to an earlier request was lost. Then, if the lock is gone while nobody
/// else could have ended it, it was us.
Release to_release(ReleaseResult result, const Lease& lease, bool asked_before) {
  if (result == ReleaseResult::released) return Release::done;
  if (!asked_before) return Release::was_lost;
  const bool was_us = result != ReleaseResult::taken || steady_clock::now() < lease.valid_until();
  return was_us ? Release::done : Release::unknown;
}

}  // namespace

LockCore::LockCore(std::unique_ptr<LockStore> store_, RunnerId runner_,
                   const LockClientOptions& options)
    : runner(std::move(runner_)),
      logger(options.logger ? options.logger : default_logger()),
      store(std::move(store_)),
      telemetry(options.observer),
      janitor(*store, logger),
      keep_alive(*store, janitor, telemetry, logger, store->timeout()),
      waiting_room(*store, logger) {}

void LockCore::start_listening() {
  std::call_once(listening_, [this] {
    listener_ = store->listen([this](const LockMessage& message) { hear(message); });
  });
}

void LockCore::hear(const LockMessage& message) {
  switch (message.type) {
    case LockMessage::Type::granted:
      // A waiter that has left meanwhile has passed the grant on when it left.
      waiting_room.tell(message.owner);
      break;
    case LockMessage::Type::taken:
      keep_alive.lose(message.owner, LossReason::taken);
      break;
    case LockMessage::Type::vanished:
      keep_alive.lose(message.owner, LossReason::vanished);
      break;
    case LockMessage::Type::reset:
      waiting_room.tell_all();
      keep_alive.verify_all();
      break;
  }
}

Lock LockCore::hold(LeaseTerms terms, const LockGrant& grant, Lease::TimePoint sent, int retries) {
  const bool reentrant = terms.reentrant;
  auto lease = std::make_shared<Lease>(std::move(terms), grant, sent);
  keep_alive.watch(lease);
  if (reentrant) {
    const std::lock_guard guard(reentrant_mutex_);
    reentrant_.insert_or_assign(lease->name(), lease);
  }
  return {shared_from_this(), std::move(lease), false, retries};
}

std::optional<Lock> LockCore::reenter(const std::string& name, LockKind kind, int retries) {
  const std::lock_guard guard(reentrant_mutex_);
  const auto found = reentrant_.find(name);
  if (found == reentrant_.end() || !found->second->valid()) return std::nullopt;
  if (found->second->kind() != kind) return std::nullopt;
  ++found->second->handles;
  return Lock{shared_from_this(), found->second, true, retries};
}

/// Whether it was the last one.
bool LockCore::drop_handle(Lease& lease) {
  if (!lease.terms().reentrant) return true;
  const std::lock_guard guard(reentrant_mutex_);
  if (--lease.handles > 0) return false;
  const auto found = reentrant_.find(lease.name());
  if (found != reentrant_.end() && found->second.get() == &lease) reentrant_.erase(found);
  return true;
}

Release LockCore::release(const std::shared_ptr<Lease>& lease) noexcept {
  if (const auto answer = end(lease)) return *answer;
  try {
    return release_grant(*lease);
  } catch (const std::exception& error) {
    release_later(*lease, error.what());
    return Release::unknown;
  }
}

void LockCore::release_all(std::span<Lock> locks) noexcept {
  std::vector<Lock*> open;
  std::vector<LockGrantId> grants;
  for (Lock& lock : locks) {
    if (!lock.lease_ || lock.released_) continue;
    lock.released_ = end(lock.lease_);
    if (lock.released_) continue;
    open.push_back(&lock);
    grants.push_back({lock.lease_->name(), lock.lease_->terms().owner});
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
      open[i]->released_ = to_release(results[i], *open[i]->lease_, asked_before);
    }
  } catch (const std::exception& error) {
    for (Lock* lock : open) {
      release_later(*lock->lease_, error.what());
      lock->released_ = Release::unknown;
    }
  }
}

/// Takes the lease off the keep-alive. Returns the answer if the store need not be asked.
std::optional<Release> LockCore::end(const std::shared_ptr<Lease>& lease) noexcept {
  if (!drop_handle(*lease)) return lease->valid() ? Release::done : Release::was_lost;
  telemetry.record(
      {.type = LockEventType::releasing, .name = lease->name(), .token = lease->token()});
  if (!lease->end_released()) return Release::was_lost;
  keep_alive.forget(lease);  // before the release: no heartbeat may follow it
  const auto unused_callback = lease->take_on_lost();  // a renewal under way must not destroy it
  telemetry.record({.type = LockEventType::released,
                    .name = lease->name(),
                    .token = lease->token(),
                    .elapsed = lease->held_for()});
  return std::nullopt;
}

void LockCore::release_later(const Lease& lease, const char* error) noexcept {
  logger->warn("lock not released yet name={} token={} error=\"{}\"", lease.name(),
               lease.token().value, error);
  janitor.release_later(lease.name(), lease.terms().owner, lease.valid_until());
}

/// Throws if the server could not be asked.
Release LockCore::release_grant(const Lease& lease) {
  const auto ask = [&] { return store->release(lease.name(), lease.terms().owner); };
  try {
    return to_release(ask(), lease, false);
  } catch (const OutcomeUnknown&) {
    return to_release(ask(), lease, true);
  }
}

Ownership LockCore::downgrade(const std::shared_ptr<Lease>& lease) {
  if (!lease->valid()) {
    keep_alive.lose(lease, LossReason::expired);  // if the timer has not seen it yet
    return Ownership::lost;
  }
  if (lease->kind() == LockKind::shared) return Ownership::held;
  bool may_have_happened = lease->begin_downgrade();
  const auto sent = steady_clock::now();
  LockRenewal renewal = lease->renewal_at(sent);
  try {
    try {
      renewal.result = store->downgrade(renewal);
    } catch (const OutcomeUnknown&) {
      may_have_happened = true;
      renewal.result = store->downgrade(renewal);  // repeating it is safe
    }
  } catch (const Error& error) {
    logger->info("downgrade failed name={} token={} error=\"{}\"", lease->name(),
                 lease->token().value, error.what());
    const bool not_sent = dynamic_cast<const Unavailable*>(&error) != nullptr;
    if (not_sent && !may_have_happened) lease->cancel_downgrade();
    return Ownership::unknown;
  }
  if (renewal.result == RenewalResult::renewed) {
    lease->end_downgrade();
  } else {
    lease->cancel_downgrade();  // the answer is about the exclusive lease: it is believed
  }
  return keep_alive.apply(lease, renewal, sent);
}

Ownership LockCore::extend(const std::shared_ptr<Lease>& lease) {
  if (!lease->valid()) {
    keep_alive.lose(lease, LossReason::expired);  // if the timer has not seen it yet
    return Ownership::lost;
  }
  const auto sent = steady_clock::now();
  auto renewal = lease->next_renewal();
  if (!renewal) return Ownership::held;  // it reaches as far as max_hold allows
  try {
    store->renew({&*renewal, 1}, store->timeout());
  } catch (const Error& error) {
    renewal->error = error.what();
  }
  return keep_alive.apply_heartbeat(lease, *renewal, sent, "extend");
}

}  // namespace leasehold::inline v0
