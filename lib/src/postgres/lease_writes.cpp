#include <algorithm>
#include <map>
#include <numeric>

#include "postgres/callers_transaction.hpp"
#include "postgres/lease_keys.hpp"
#include "postgres/postgres_task_store.hpp"
#include "postgres/pqxx_bridge.hpp"
#include "postgres/rows.hpp"

namespace leasehold::inline v0::postgres {

using std::chrono::milliseconds;

Renewed PostgresTaskStore::extend(std::span<const Renewable> leases, milliseconds duration) {
  Params params;
  add_keys(params, leases, [](const Renewable& lease) { return lease.key; });
  ArrayText started;
  for (const Renewable& lease : leases) {
    started.add(std::string_view(lease.started ? "true" : "false"));
  }
  params.add(std::move(started)).add(duration.count());
  Renewed renewed;
  for (const auto& row : pool_.run(statements_.extend, params)) {
    (row[2].as<bool>() ? renewed.renewed : renewed.locked).push_back(to_lease_name(row));
  }
  return renewed;
}

LeaseWrite PostgresTaskStore::complete_in(const CallersTransaction& transaction,
                                          const FinishedTask& task, Keep keep) {
  return in_transaction_of_caller(transaction, [&](pqxx::transaction_base& callers) {
    const auto reply = execute(callers, statements_.complete.text,
                               completion_params({&task, 1}, keep, std::nullopt));
    return reply.empty() ? LeaseWrite::stale : LeaseWrite::accepted;
  });
}

std::vector<LeaseName> PostgresTaskStore::release(std::span<const LeaseKey> keys,
                                                  std::optional<milliseconds> delay,
                                                  GivenBack when) {
  Params params;
  add_keys(params, keys);
  params.add(delay ? std::optional(delay->count()) : std::nullopt)
      .add(std::string_view(when == GivenBack::in_order ? "true" : "false"))
      .add(patience_.count());
  const auto reply = pool_.run(statements_.release, params);
  for (const auto& row : reply) leasing_.forget(row[2].c_str());
  return to_lease_names(reply);
}

LeaseWrite PostgresTaskStore::progress(const LeaseKey& key, std::string_view json) {
  Params params;
  params.add(key.id.value).add(key.version.value).add(key.lease.value).add(json);
  params.add(patience_.count());
  return pool_.run(statements_.progress, params).empty() ? LeaseWrite::stale : LeaseWrite::accepted;
}

std::vector<FailOutcome> PostgresTaskStore::fail(std::span<const FailedTask> tasks) {
  std::vector<std::size_t> order(tasks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return tasks[a].key.id < tasks[b].key.id; });
  Params params;
  add_keys(params, order, [&](std::size_t i) { return tasks[i].key; });
  ArrayText errors;
  ArrayText delays;
  for (const std::size_t i : order) {
    errors.add(tasks[i].error);
    if (tasks[i].retry_after) {
      delays.add(tasks[i].retry_after->count());
    } else {
      delays.add_null();
    }
  }
  params.add(std::move(errors)).add(std::move(delays)).add(patience_.count());
  std::map<LeaseName, FailOutcome> accepted;
  for (const auto& row : pool_.run(statements_.fail, params)) {
    accepted[to_lease_name(row)] = row[2].as<bool>() ? FailOutcome::dead : FailOutcome::retried;
  }
  std::vector<FailOutcome> outcomes;
  outcomes.reserve(tasks.size());
  for (const FailedTask& task : tasks) {
    const auto found = accepted.find(task.key.name());
    outcomes.push_back(found == accepted.end() ? FailOutcome::stale : found->second);
  }
  return outcomes;
}

}  // namespace leasehold::inline v0::postgres
