#include "tasks/queue_core.hpp"

#include <spdlog/logger.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "support/default_logger.hpp"
#include "support/log_event.hpp"
#include "support/random.hpp"
#include "tasks/validation.hpp"

namespace leasehold::inline v0 {

using std::chrono::milliseconds;

QueueCore::QueueCore(std::unique_ptr<TaskStore> its_store, TaskQueueOptions its_options)
    : options(std::move(its_options)),
      runner(options.runner ? *options.runner : RunnerId::of_this_process()),
      logger(options.logger ? options.logger : default_logger()),
      store(std::move(its_store)),
      writes(*store, telemetry, *logger, LostReply::repeat) {}

std::vector<TaskLease> QueueCore::lease(LeaseRequest request) {
  if (request.worker.empty()) request.worker = runner.str();
  check_lease_request(request);
  look_after();  // first, so that this lease finds what it takes back
  auto [tasks, valid_until] = lease_tasks(request, request.limit);
  std::vector<TaskLease> leases;
  leases.reserve(tasks.size());
  for (LeasedTask& task : tasks) {
    leases.push_back(TaskLease{std::make_unique<TaskLease::State>(
        shared_from_this(), std::move(task), request, valid_until)});
  }
  return leases;
}

QueueCore::Leased QueueCore::lease_tasks(const LeaseRequest& request, std::size_t starts) {
  const auto sent = BootClock::now();  // before the call: latency must shorten trust
  Leased leased{store->lease(request, starts), trusted_until(sent, request.duration)};
  telemetry.lease_time.add(
      std::chrono::duration_cast<std::chrono::microseconds>(BootClock::now() - sent));
  telemetry.leased.add(leased.tasks.size());
  if (leased.tasks.empty()) telemetry.empty_leases.add();
  return leased;
}

std::size_t QueueCore::look_after() {
  if (!upkeep_.is_due(BootClock::now())) return 0;
  try {
    const Upkeep done = store->look_after(runner.str(), options.recovery);
    upkeep_.learn(done.fleet);
    note_recovered(done.recovered);
    return done.recovered.size();
  } catch (const ServerRefused& error) {
    // Not the caller's trouble, unless it lasts: then the lease reports it.
    const auto now = BootClock::now();
    auto next = next_upkeep_log_.load();
    if (now >= next &&
        next_upkeep_log_.compare_exchange_strong(next, now + std::chrono::minutes{1})) {
      log_info(*logger, "task upkeep failed", {{"error", error.what()}});
    }
    return 0;
  } catch (const OutcomeUnknown& error) {
    // Nothing that the caller wanted has been sent.
    throw Unavailable(error.what());
  }
}

void QueueCore::note_recovered(const std::vector<RecoveredTask>& tasks) {
  for (const RecoveredTask& task : tasks) {
    log_info(*logger, "task recovered",
             {{"id", task.id.value},
              {"type", task.type},
              {"worker", task.worker},
              {"overdue_ms", task.overdue.count()},
              {"crashes", task.crash_count},
              {"state", to_string(task.state)}});
    if (task.state == TaskState::dead) telemetry.dead.add();
  }
  telemetry.recovered.add(tasks.size());
}

void QueueCore::check_result(std::string_view result) const {
  if (!result.empty()) check_json("result", result, options.largest_payload);
}

std::optional<milliseconds> QueueCore::retry_after(const Retry& retry, int attempts) const {
  if (retry.kind_ == Retry::Kind::never) return std::nullopt;
  if (retry.kind_ == Retry::Kind::after) {
    check_delay("retry delay", retry.delay_);
    return retry.delay_;
  }
  const TaskBackoff& backoff = retry.kind_ == Retry::Kind::with ? retry.backoff_ : options.backoff;
  check_backoff(backoff);
  const double full =
      std::min(static_cast<double>(backoff.first.count()) * std::pow(backoff.factor, attempts - 1),
               static_cast<double>(backoff.longest.count()));
  return milliseconds{static_cast<milliseconds::rep>(full * (1.0 - random_share() / 2))};
}

}  // namespace leasehold::inline v0
