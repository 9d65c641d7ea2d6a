#include "snapshot.hpp"

#include <algorithm>

#include "leasehold/errors.hpp"
#include "task_pages.hpp"

namespace leasehold::cli {
namespace {

using std::chrono::system_clock;

/// What has to be remembered of a lease.
struct LeaseSeen {
  WorkerSeen* worker;
  std::optional<system_clock::time_point> expiry;
};

LocksSeen look_at(LockClient& client) {
  LocksSeen seen;
  client.visit("*", [&](const LockRecord& record) {
    ++(record.state == LockState::stale ? seen.stale : seen.held);
    seen.waiting += record.waiter_count;
    if (seen.records.size() < LocksSeen::most_records) seen.records.push_back(record);
    return true;
  });
  return seen;
}

TasksSeen look_at(TaskQueue& queue) {
  TasksSeen seen{.counts = queue.counts(), .health = queue.health()};
  const bool any_leases = std::ranges::any_of(
      seen.counts, [](const TaskCount& count) { return count.state == TaskState::leased; });
  if (!any_leases) return seen;
  std::vector<LeaseSeen> leases;
  // Only a list says who the workers are.
  visit_tasks_without_payloads(queue, {.state = TaskState::leased, .limit = TasksSeen::most_leases},
                               [&](const TaskRecord& task) {
                                 WorkerSeen& worker =
                                     seen.workers[task.leased_by];  // a map does not move it
                                 ++worker.leases;
                                 leases.push_back({&worker, task.lease_expiry});
                               });
  seen.leases_cut_off = leases.size() == TasksSeen::most_leases;
  // Only the database's clock decides. Its time now is the end of the first lease to expire plus
  // that lease's age, which the database has computed.
  std::optional<system_clock::time_point> now;
  for (const LeaseSeen& lease : leases) {
    if (!seen.health.oldest_expired || !lease.expiry) continue;
    const auto reading = *lease.expiry + *seen.health.oldest_expired;
    now = now ? std::min(*now, reading) : reading;
  }
  for (const LeaseSeen& lease : leases) {
    if (now && lease.expiry && *lease.expiry <= *now) {
      ++lease.worker->expired;
      ++seen.expired_leases;
    }
  }
  return seen;
}

/// Calls `look`. Returns the message of the error, or an empty text.
template <typename Look>
std::string try_to(Look look, ExitCode& code) {
  const auto failed = [&](const std::exception& error, ExitCode with) {
    if (code == ExitCode::done) code = with;
    return std::string(error.what());
  };
  try {
    look();
    return {};
  } catch (const Unavailable& error) {
    return failed(error, ExitCode::unreachable);
  } catch (const OutcomeUnknown& error) {  // nothing was written
    return failed(error, ExitCode::unreachable);
  } catch (const Error& error) {
    return failed(error, ExitCode::failed);
  }
}

}  // namespace

SnapshotTaker::SnapshotTaker(const Stores& stores) {
  if (!stores.has_locks() && !stores.has_tasks()) {
    throw Failure(ExitCode::misused, "there is no address for the locks or the tasks",
                  "Set it in one of three ways: --redis, --database or --store sqlite:FILE; the "
                  "environment variables LEASEHOLD_REDIS_URL and LEASEHOLD_DATABASE_URL; or a "
                  "--config FILE");
  }
  if (stores.has_locks()) {
    locks_where_ = stores.locks_where();
    locks_.emplace(stores.locks());
  }
  if (stores.has_tasks()) {
    tasks_where_ = stores.tasks_where();
    tasks_.emplace(stores.tasks());
  }
}

Snapshot SnapshotTaker::take() {
  Snapshot snapshot;
  snapshot.locks_where = locks_where_;
  snapshot.tasks_where = tasks_where_;
  if (locks_) {
    snapshot.locks_error = try_to([&] { snapshot.locks = look_at(*locks_); }, snapshot.code);
  }
  if (tasks_) {
    snapshot.tasks_error = try_to([&] { snapshot.tasks = look_at(*tasks_); }, snapshot.code);
  }
  return snapshot;
}

}  // namespace leasehold::cli
