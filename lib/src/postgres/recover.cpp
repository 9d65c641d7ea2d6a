#include <algorithm>

#include "leasehold/errors.hpp"
#include "postgres/lock_patience.hpp"
#include "postgres/postgres_task_store.hpp"
#include "postgres/rows.hpp"

namespace leasehold::inline v0::postgres {
namespace {

// The most bytes of dead tasks that one statement moves.
constexpr std::int64_t most_bytes = 32 * 1024 * 1024;

}  // namespace

Recovered PostgresTaskStore::recover(const ExpiredLease& after, const RecoveryOptions& options) {
  Params params;
  params.add(after.leased_at_us)
      .add(after.id.value)
      .add(static_cast<std::int64_t>(options.batch))
      .add(most_bytes)
      .add(static_cast<std::int64_t>(options.max_crashes))
      .add(table_patience(options_.postgres.command_timeout).count());
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

Upkeep PostgresTaskStore::look_after(std::string_view process,
                                     const std::optional<RecoveryOptions>& options) {
  Params params;
  params.add(process)
      .add(static_cast<std::int64_t>(options ? options->batch : 0))
      .add(most_bytes)
      .add(static_cast<std::int64_t>(options ? options->max_crashes : 0));
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
