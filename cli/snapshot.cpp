#include "snapshot.hpp"

#include <algorithm>

#include "leasehold/errors.hpp"

namespace leasehold::cli {
namespace {

using std::chrono::system_clock;

constexpr std::size_t lease_page = 10'000;

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
  std::vector<TaskRecord> leased;
  TaskFilter filter{.state = TaskState::leased, .limit = lease_page};
  while (true) {
    const auto page = queue.list(filter);
    leased.insert(leased.end(), page.begin(), page.end());
    if (page.size() < lease_page) break;
    seen.leases_cut_off = leased.size() >= TasksSeen::most_leases;
    if (seen.leases_cut_off) break;
    filter.after = page.back().id;
  }
  // Only the database's clock decides. Its time now is the end of the first lease to expire plus
  // that lease's age, which the database has computed.
  std::optional<system_clock::time_point> now;
  for (const TaskRecord& task : leased) {
    if (!seen.health.oldest_expired || !task.lease_expiry) continue;
    const auto reading = *task.lease_expiry + *seen.health.oldest_expired;
    now = now ? std::min(*now, reading) : reading;
  }
  for (const TaskRecord& task : leased) {
    WorkerSeen& worker = seen.workers[task.leased_by];
    ++worker.leases;
    if (now && task.lease_expiry && *task.lease_expiry <= *now) {
      ++worker.expired;
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
