#include <algorithm>

#include "postgres/postgres_errors.hpp"
#include "postgres/postgres_task_store.hpp"
#include "postgres/rows.hpp"

namespace leasehold::inline v0::postgres {

std::optional<StoredTask> PostgresTaskStore::get(TaskId id) {
  Params params;
  params.add(id.value);
  const auto reply = pool_.run(statements_.get, params);
  if (reply.empty()) return std::nullopt;
  return to_stored_task(reply[0]);
}

std::vector<TaskRecord> PostgresTaskStore::list(const TaskFilter& filter) {
  Params params;
  params.add(filter.type);
  params.add(filter.state ? std::optional(std::string(to_string(*filter.state))) : std::nullopt);
  params.add(filter.worker).add(filter.after.value).add(static_cast<std::int64_t>(filter.limit));
  params.add(std::string_view(filter.payloads == Payloads::with ? "true" : "false"));
  std::vector<TaskRecord> tasks;
  for (const auto& row : pool_.run(statements_.list, params)) {
    tasks.push_back(to_stored_task(row).record);
  }
  return tasks;
}

std::vector<TaskCount> PostgresTaskStore::counts(std::uint64_t at_most) {
  constexpr std::uint64_t most = 1'000'000'000'000;
  at_most = std::min(at_most, most);
  Params params;
  params.add(static_cast<std::int64_t>(at_most));
  std::vector<TaskCount> counts;
  for (const auto& row : pool_.run(statements_.counts, params)) {
    TaskCount& count = counts.emplace_back();
    count.type = row[0].c_str();
    count.state = to_state(row[1].c_str());
    count.number = row[2].as<std::uint64_t>();
    if (count.state != TaskState::leased && count.number > at_most) {
      count.number = at_most;
      count.more = true;
    }
  }
  return counts;
}

QueueHealth PostgresTaskStore::health() {
  QueueHealth health = to_health(pool_.run(statements_.health, Params{})[0]);
  try {
    const auto holders = pool_.run(statements_.oldest_snapshot, Params{});
    if (!holders.empty()) health.oldest_snapshot = to_snapshot_holder(holders[0]);
  } catch (const SqlRefused& refused) {
    // The user may lack access to the server's own views; the queue's tables are enough to work.
    if (refused.reason() != ServerRefused::Reason::permission) throw;
  }
  return health;
}

}  // namespace leasehold::inline v0::postgres
