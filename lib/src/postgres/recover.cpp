#include "postgres/postgres_task_store.hpp"
#include "postgres/rows.hpp"

namespace leasehold::inline v0::postgres {

std::vector<RecoveredTask> PostgresTaskStore::recover(TaskId after,
                                                      const RecoveryOptions& options) {
  Params params;
  params.add(after.value)
      .add(static_cast<std::int64_t>(options.batch))
      .add(static_cast<std::int64_t>(options.max_crashes));
  std::vector<RecoveredTask> tasks;
  for (const auto& row : pool_.run(statements_.recover, params)) {
    tasks.push_back(to_recovered(row));
    leasing_.forget(tasks.back().type);
  }
  return tasks;
}

}  // namespace leasehold::inline v0::postgres
