#include <algorithm>

#include "leasehold/errors.hpp"
#include "postgres/postgres_task_store.hpp"
#include "postgres/rows.hpp"

namespace leasehold::inline v0::postgres {

Recovered PostgresTaskStore::recover(const ExpiredLease& after, const RecoveryOptions& options) {
  Params params;
  params.add(after.leased_at_us)
      .add(after.id.value)
      .add(static_cast<std::int64_t>(options.batch))
      .add(static_cast<std::int64_t>(options.max_crashes));
  Recovered recovered;
  auto& tasks = recovered.tasks;
  for (const auto& row : pool_.run(statements_.recover, params)) {
    tasks.push_back(to_recovered(row));
    recovered.last = std::max(recovered.last, to_expired(row));
    leasing_.forget(tasks.back().type);
  }
  std::sort(tasks.begin(), tasks.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  // For a daemon that runs without workers. They do it in look_after(). Once a round is enough; if
  // it fails, the next round that recovers nothing says so.
  if (after == ExpiredLease{}) {
    try {
      pool_.run(statements_.add_days, {});
    } catch (const Error&) {
      if (tasks.empty()) throw;
    }
  }
  return recovered;
}

Upkeep PostgresTaskStore::look_after(std::string_view process, const RecoveryOptions& options) {
  Params params;
  params.add(process)
      .add(static_cast<std::int64_t>(options.batch))
      .add(static_cast<std::int64_t>(options.max_crashes));
  Upkeep done;
  for (const auto& row : pool_.run(statements_.look_after, params)) {
    done.fleet = row[0].as<std::size_t>();
    if (row[1].is_null()) continue;
    done.recovered.push_back(to_recovered(row, 1));
    leasing_.forget(done.recovered.back().type);
  }
  return done;
}

}  // namespace leasehold::inline v0::postgres
