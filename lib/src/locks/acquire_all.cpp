#include "locks/acquire_all.hpp"

#include <algorithm>

#include "leasehold/errors.hpp"
#include "locks/acquire.hpp"
#include "locks/validation.hpp"
#include "support/random.hpp"
#include "support/sleep.hpp"

namespace leasehold::inline v0 {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t most_names = 64;

std::vector<std::string> checked_names(std::vector<std::string> names) {
  if (names.empty() || names.size() > most_names) {
    throw InvalidArgument("acquire_all of " + std::to_string(names.size()) +
                          " names: allowed are 1 to 64");
  }
  for (const auto& name : names) check_lock_name(name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

const LockOptions& checked_options(const LockOptions& options) {
  check_lock_options(options);
  if (options.on_conflict != OnConflict::wait && options.on_conflict != OnConflict::fail_fast) {
    throw InvalidArgument("acquire_all: on_conflict must be wait or fail_fast");
  }
  if (options.reentry == Reentry::allowed) {
    throw InvalidArgument("acquire_all: re-entry is not possible");
  }
  return options;
}

}  // namespace

AcquireAllCall::AcquireAllCall(std::shared_ptr<LockCore> core, std::vector<std::string> names,
                               const LockOptions& options, std::stop_token stop)
    : core_(std::move(core)),
      names_(checked_names(std::move(names))),
      options_(checked_options(options)),
      metadata_(metadata_json(options)),
      stop_(std::move(stop)),
      ttl_(first_ttl(options.ttl, options.max_hold)),
      started_(steady_clock::now()),
      deadline_(acquire_deadline(started_, options)),
      error_backoff_(milliseconds{10}, milliseconds{500}) {}

SetAcquisition AcquireAllCall::run() {
  core_->start_listening();
  tell_all(LockEventType::claiming);
  try {
    auto outcome = try_until_all_are_held();
    if (!outcome) tell_all(LockEventType::failed);
    return outcome;
  } catch (...) {
    tell_all(LockEventType::failed);
    throw;
  }
}

SetAcquisition AcquireAllCall::try_until_all_are_held() {
  std::vector<Lock> held;
  for (;;) {
    const auto busy = take_those_free(held);
    if (!busy || stop_.stop_requested()) {
      core_->release_all(held);
      return SetAcquisition{Refusal{.reason = RefusalReason::cancelled}};
    }
    if (busy->empty()) {
      if (auto set = accept(std::move(held))) return SetAcquisition{std::move(*set)};
      held.clear();
      continue;
    }
    // Nothing is held while we wait. The first busy one, so that sets which overlap meet in the
    // same line. (Held without a wait it is taken even from a holder that vanished.)
    core_->release_all(held);
    held.clear();
    waited_for_ = busy->front();
    auto acquired = AcquireCall{core_, waited_for_, options_for_one(), stop_}.run();
    if (!acquired) return SetAcquisition{acquired.refusal()};
    waited_for_.clear();
    held.push_back(*std::move(acquired));
  }
}

/// Tries all that are not held, in one round trip, until the store answers; returns the names of
/// those that are busy. Nothing if the caller's stop token fired.
std::optional<std::vector<std::string>> AcquireAllCall::take_those_free(std::vector<Lock>& held) {
  while (!stop_.stop_requested()) {
    // New for each attempt: what became of an earlier one, whose reply was lost, is taken back.
    std::vector<std::string> owners;
    owners.reserve(names_.size());
    const std::vector<LockClaim> claims = claim_all_but(held, owners);
    const auto sent = steady_clock::now();
    try {
      const auto tokens = core_->store->take_free(claims);
      std::vector<std::string> busy;
      for (std::size_t i = 0; i < claims.size(); ++i) {
        if (tokens[i]) {
          held.push_back(hold(claims[i], *tokens[i], sent));
        } else {
          busy.emplace_back(claims[i].name);
        }
      }
      return busy;
    } catch (const Unavailable&) {
      if (time_left() <= milliseconds{0}) throw;
    } catch (const OutcomeUnknown&) {
      take_back(claims, sent);
      if (++lost_replies_ >= most_lost_replies && time_left() <= milliseconds{0}) throw;
    } catch (const ServerRefused& error) {
      take_back(claims, sent);  // one was refused; the others may have been granted
      if (!error.transient() || time_left() <= milliseconds{0}) throw;
    }
    pause_after_error();
  }
  return std::nullopt;
}

std::vector<LockClaim> AcquireAllCall::claim_all_but(const std::vector<Lock>& held,
                                                     std::vector<std::string>& owners) const {
  std::vector<LockClaim> claims;
  for (const std::string& name : names_) {
    if (!held.empty() && held.front().name() == name) continue;
    LockClaim claim;
    claim.name = name;
    claim.owner = owners.emplace_back(random_hex(16));
    claim.metadata = metadata_;
    claim.ttl = ttl_;
    claim.heartbeat_every = promised_interval(options_);
    claims.push_back(claim);
  }
  return claims;
}

void AcquireAllCall::take_back(std::span<const LockClaim> claims, Lease::TimePoint sent) noexcept {
  std::vector<LockGrantId> grants;
  for (const LockClaim& claim : claims) grants.push_back({claim.name, claim.owner});
  try {
    core_->store->release_all(grants);
  } catch (const std::exception&) {
    for (const LockGrantId& grant : grants) {
      core_->janitor.release_later(std::string(grant.name), std::string(grant.owner), sent + ttl_);
    }
  }
}

Lock AcquireAllCall::hold(const LockClaim& claim, FencingToken token, Lease::TimePoint sent) {
  Lock lock = core_->hold(LeaseTerms{.name = std::string(claim.name),
                                     .owner = std::string(claim.owner),
                                     .metadata = metadata_,
                                     .ttl = options_.ttl,
                                     .heartbeat_every = heartbeat_interval(options_),
                                     .max_hold = options_.max_hold,
                                     .on_lost = options_.on_lost},
                          LockGrant{.token = token}, sent, 0);
  core_->telemetry.record(
      {.type = LockEventType::acquired, .name = claim.name, .token = token, .elapsed = elapsed()});
  return lock;
}

/// Nothing, and all are given back, if one came too slowly to be trusted still or was lost at once.
std::optional<LockSet> AcquireAllCall::accept(std::vector<Lock> held) {
  std::sort(held.begin(), held.end(),
            [](const Lock& a, const Lock& b) { return a.name() < b.name(); });
  LockSet set{std::move(held)};
  if (set.valid()) return set;
  set.release();
  if (time_left() <= milliseconds{0}) {
    throw Unavailable(core_->store->where() + ": answers more slowly than a ttl of " +
                      std::to_string(ttl_.count()) + " ms allows");
  }
  pause_after_error();
  return std::nullopt;
}

/// With the time that is left.
LockOptions AcquireAllCall::options_for_one() const {
  LockOptions options = options_;
  if (deadline_ != Lease::TimePoint::max()) options.wait = std::max(milliseconds{0}, time_left());
  return options;
}

void AcquireAllCall::pause_after_error() {
  sleep_for(std::min(error_backoff_.next(), time_left() + milliseconds{1}), stop_);
}

/// Of every lock, but the one that was waited for last: AcquireCall has told of that one.
void AcquireAllCall::tell_all(LockEventType type) noexcept {
  for (const std::string& name : names_) {
    if (name == waited_for_) continue;
    core_->telemetry.record({.type = type, .name = name, .elapsed = elapsed()});
  }
}

milliseconds AcquireAllCall::time_left() const {
  if (deadline_ == Lease::TimePoint::max()) return milliseconds::max() / 2;
  return std::chrono::ceil<milliseconds>(deadline_ - steady_clock::now());
}

std::chrono::microseconds AcquireAllCall::elapsed() const {
  return std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now() - started_);
}

}  // namespace leasehold::inline v0
