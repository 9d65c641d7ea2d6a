#include "postgres/callers_transaction.hpp"
#include "postgres/lease_keys.hpp"
#include "postgres/postgres_task_store.hpp"
#include "postgres/pqxx_bridge.hpp"
#include "postgres/rows.hpp"

namespace leasehold::inline v0::postgres {

using std::chrono::milliseconds;

std::vector<TaskId> PostgresTaskStore::extend(std::span<const LeaseKey> keys,
                                              milliseconds duration) {
  Params params;
  add_keys(params, keys);
  params.add(duration.count());
  return to_ids(pool_.run(statements_.extend, params));
}

LeaseWrite PostgresTaskStore::complete_in(const CallersTransaction& transaction,
                                          const FinishedTask& task, Keep keep) {
  return in_transaction_of_caller(transaction, [&](pqxx::transaction_base& callers) {
    const auto reply = execute(callers, completion_statement(statements_, keep).text,
                               completion_params({&task, 1}, keep));
    return reply.empty() ? LeaseWrite::stale : LeaseWrite::accepted;
  });
}

std::vector<TaskId> PostgresTaskStore::release(std::span<const LeaseKey> keys,
                                               std::optional<milliseconds> delay) {
  Params params;
  add_keys(params, keys);
  params.add(delay ? std::optional(delay->count()) : std::nullopt);
  const auto reply = pool_.run(statements_.release, params);
  for (const auto& row : reply) leasing_.forget(row[1].c_str());
  return to_ids(reply);
}

LeaseWrite PostgresTaskStore::progress(const LeaseKey& key, std::string_view json) {
  Params params;
  params.add(key.id.value).add(key.version.value).add(json);
  return pool_.run(statements_.progress, params).empty() ? LeaseWrite::stale : LeaseWrite::accepted;
}

FailOutcome PostgresTaskStore::fail(const LeaseKey& key, const Failure& failure) {
  Params params;
  params.add(key.id.value).add(key.version.value).add(failure.error);
  params.add(failure.retry_after ? std::optional(failure.retry_after->count()) : std::nullopt);
  const auto reply = pool_.run(statements_.fail, params);
  if (reply.empty()) return FailOutcome::stale;
  return to_state(reply[0][0].c_str()) == TaskState::dead ? FailOutcome::dead
                                                          : FailOutcome::retried;
}

}  // namespace leasehold::inline v0::postgres
