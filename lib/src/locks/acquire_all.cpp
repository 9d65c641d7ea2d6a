#include "locks/acquire_all.hpp"

#include <algorithm>

#include "leasehold/errors.hpp"
#include "locks/acquire.hpp"
#include "locks/validation.hpp"
#include "support/random.hpp"

namespace leasehold::inline v0 {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t most_names = 64;

std::vector<std::string> checked_names(std::vector<std::string> names) {
  if (names.empty() || names.size() > most_names) {
    throw InvalidArgument("acquire_all takes 1 to 64 names, got " + std::to_string(names.size()));
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
    throw InvalidArgument("acquire_all: reentry must be refused");
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
      ttl_(first_ttl(options.ttl, options.max_hold)),
      attempts_(options, std::move(stop)) {}

SetAcquisition AcquireAllCall::run() {
  core_->prepare(options_.on_lost != nullptr);
  record_all(LockEventType::acquiring);
  try {
    auto outcome = try_until_all_are_held();
    if (!outcome) record_all(LockEventType::failed);
    return outcome;
  } catch (...) {
    record_all(LockEventType::failed);
    throw;
  }
}

SetAcquisition AcquireAllCall::try_until_all_are_held() {
  std::vector<Lock> held;
  for (;;) {
    const auto busy = take_those_free(held);
    if (!busy || attempts_.stopped()) {
      core_->release_all(held);
      return SetAcquisition{Refusal{.reason = RefusalReason::cancelled}};
    }
    if (busy->empty()) {
      if (auto set = accept(std::move(held))) return SetAcquisition{std::move(*set)};
      held.clear();
      continue;
    }
    // Nothing is held during a wait. We wait for the first busy lock, so that sets which overlap
    // meet in the same line. If it has become free, or its holder has expired, there is no wait.
    core_->release_all(held);
    held.clear();
    waited_for_ = busy->front();
    auto acquired = AcquireCall{core_, waited_for_, options_for_one(), attempts_.stop()}.run();
    if (!acquired) return SetAcquisition{acquired.refusal()};
    waited_for_.clear();
    held.push_back(*std::move(acquired));
  }
}

/// Tries all locks that are not held, in one round trip, until the store answers. Returns the names
/// of those that are busy; nothing if the caller's stop token fired.
std::optional<std::vector<std::string>> AcquireAllCall::take_those_free(std::vector<Lock>& held) {
  Batch batch;
  const auto tokens = attempts_.until_answered(
      [&] {
        batch = make_batch(held);
        return core_->store->acquire_free(batch.requests);
      },
      [&] { take_back(batch); });
  if (!tokens) return std::nullopt;
  std::vector<std::string> busy;
  for (std::size_t i = 0; i < tokens->size(); ++i) {
    const AcquireRequest& request = batch.requests[i];
    if (const auto& token = (*tokens)[i]) {
      held.push_back(hold(request, *token, batch.sent));
    } else {
      busy.emplace_back(request.name);
    }
  }
  return busy;
}

/// With new owners: what an earlier batch was granted, if its reply was lost, is taken back.
AcquireAllCall::Batch AcquireAllCall::make_batch(const std::vector<Lock>& held) const {
  Batch batch;
  batch.owners.reserve(names_.size());  // requests refer to them
  for (const std::string& name : names_) {
    if (!held.empty() && held.front().name() == name) continue;
    AcquireRequest request;
    request.name = name;
    request.owner = batch.owners.emplace_back(random_hex(16));
    request.metadata = metadata_;
    request.ttl = ttl_;
    request.heartbeat_every = promised_interval(options_);
    batch.requests.push_back(std::move(request));
  }
  batch.sent = BootClock::now();
  return batch;
}

void AcquireAllCall::take_back(const Batch& batch) noexcept {
  std::vector<GrantId> grants;
  for (const AcquireRequest& request : batch.requests) {
    grants.push_back({request.name, request.owner});
  }
  core_->take_back(grants, batch.sent + ttl_);
}

Lock AcquireAllCall::hold(const AcquireRequest& request, FencingToken token,
                          Grant::TimePoint sent) {
  Lock lock = core_->hold(GrantTerms{.name = std::string(request.name),
                                     .owner = std::string(request.owner),
                                     .metadata = metadata_,
                                     .ttl = options_.ttl,
                                     .heartbeat_every = heartbeat_interval(options_),
                                     .max_hold = options_.max_hold,
                                     .on_lost = options_.on_lost},
                          Granted{.token = token}, sent, 0);
  core_->telemetry.record({.type = LockEventType::acquired,
                           .name = request.name,
                           .token = token,
                           .elapsed = attempts_.elapsed()});
  return lock;
}

/// Nothing, and all are given back, if one came too late to be trusted or was lost at once.
std::optional<LockSet> AcquireAllCall::accept(std::vector<Lock> held) {
  std::sort(held.begin(), held.end(),
            [](const Lock& a, const Lock& b) { return a.name() < b.name(); });
  LockSet set{std::move(held)};
  if (set.valid()) return set;
  set.release();
  attempts_.pause_after_slow_answer(core_->store->where(), ttl_);
  return std::nullopt;
}

/// With the time that is left.
LockOptions AcquireAllCall::options_for_one() const {
  LockOptions options = options_;
  options.wait = wait_until(attempts_.deadline());
  return options;
}

/// For every lock except the one that was waited for last: its AcquireCall has recorded that.
void AcquireAllCall::record_all(LockEventType type) noexcept {
  for (const std::string& name : names_) {
    if (name == waited_for_) continue;
    core_->telemetry.record({.type = type, .name = name, .elapsed = attempts_.elapsed()});
  }
}

}  // namespace leasehold::inline v0
