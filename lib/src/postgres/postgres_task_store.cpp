#include "postgres/postgres_task_store.hpp"

#include <algorithm>
#include <functional>

#include "leasehold/errors.hpp"
#include "postgres/postgres_errors.hpp"
#include "postgres/postgres_listener.hpp"
#include "postgres/pqxx_bridge.hpp"
#include "postgres/rows.hpp"
#include "sql_queries.hpp"
#include "tasks/names.hpp"

namespace leasehold::inline v0 {
namespace postgres {
namespace {

using std::chrono::milliseconds;

std::int64_t microseconds_since_1970(std::chrono::system_clock::time_point time) {
  return std::chrono::floor<std::chrono::microseconds>(time.time_since_epoch()).count();
}

template <typename Items, typename KeyOf = std::identity>
void add_keys(Params& params, const Items& items, KeyOf key_of = {}) {
  ArrayText ids(items.size() * 10);
  ArrayText versions(items.size() * 4);
  for (const auto& item : items) {
    const LeaseKey& key = key_of(item);
    ids.add(key.id.value);
    versions.add(key.version.value);
  }
  params.add(std::move(ids)).add(std::move(versions));
}

Params completion_params(std::span<const FinishedTask> tasks, Keep keep) {
  Params params;
  add_keys(params, tasks, [](const FinishedTask& task) { return task.key; });
  if (keep == Keep::no) return params;
  ArrayText results(tasks.size() * 5);
  for (const FinishedTask& task : tasks) {
    if (task.result.empty()) {
      results.add_null();
    } else {
      results.add(task.result);
    }
  }
  params.add(std::move(results));
  return params;
}

std::vector<Enqueued> to_enqueued(const pqxx::result& reply) {
  std::vector<Enqueued> answers;
  answers.reserve(static_cast<std::size_t>(reply.size()));
  for (const auto& row : reply) {
    answers.push_back({TaskId{row[0].as<std::int64_t>()},
                       row[1].as<bool>() ? Enqueued::Outcome::exists : Enqueued::Outcome::added});
  }
  return answers;
}

// Calls for fewer tasks than this are made together with those of other threads: a statement, and
// the commit for which it waits, cost more than a task.
constexpr std::size_t small = 50;

/// How many combined calls are under way at once: while they are, the others gather.
std::size_t most_under_way(std::size_t connections) {
  return std::max<std::size_t>(1, connections / 8);
}

/// Those of one kind.
template <typename Kind, typename Call>
std::vector<Kind*> only(std::span<Call* const> calls) {
  std::vector<Kind*> found;
  for (Call* call : calls) {
    if (auto* one = std::get_if<Kind>(call)) found.push_back(one);
  }
  return found;
}

}  // namespace

Statements::Statements(const std::string& schema)
    : enqueue(sql::enqueue, schema),
      enqueue_unique(sql::enqueue_unique, schema),
      extend(sql::extend, schema, Plan::kept),
      progress(sql::progress, schema),
      complete(sql::complete, schema, Plan::kept),
      complete_and_delete(sql::complete_and_delete, schema, Plan::kept),
      lease_and_complete(sql::lease_and_complete, schema, Plan::kept),
      lease_and_delete(sql::lease_and_delete, schema, Plan::kept),
      fail(sql::fail, schema),
      release(sql::release, schema),
      recover(sql::recover, schema),
      get(sql::get, schema),
      list(sql::list, schema),
      update(sql::update, schema),
      cancel(sql::cancel, schema),
      retry(sql::retry, schema),
      remove_finished(sql::remove_finished, schema),
      counts(sql::counts, schema),
      health(sql::health, schema),
      oldest_snapshot(sql::oldest_snapshot, schema),
      listen(sql::listen, schema) {}

PostgresTaskStore::PostgresTaskStore(PostgresUri uri, const TaskQueueOptions& options)
    : uri_(std::move(uri)),
      options_(options),
      pool_(uri_, options.postgres),
      statements_(options.postgres.schema),
      channel_(options.notify == Notify::on ? std::optional(options.postgres.schema)
                                            : std::nullopt),
      claims_(pool_, options.postgres.schema),
      small_calls_(
          most_under_way(options.postgres.connections),
          [this](auto chosen, const SmallCall& next) { return may_go_together(chosen, next); },
          [this](auto calls) { run(calls); }) {}

const Statement& PostgresTaskStore::enqueue_statement(std::span<const NewTask> tasks) const {
  const bool keys =
      std::any_of(tasks.begin(), tasks.end(), [](const auto& t) { return !t.unique_key.empty(); });
  return keys ? statements_.enqueue_unique : statements_.enqueue;
}

Params PostgresTaskStore::enqueue_params(std::span<const NewTask> tasks) const {
  std::size_t bytes = 0;
  for (const NewTask& task : tasks) bytes += task.payload.size() + task.payload.size() / 4 + 3;
  ArrayText types;
  ArrayText payloads(bytes);
  ArrayText priorities;
  ArrayText run_ats;
  ArrayText delays;
  ArrayText max_attempts;
  ArrayText keys;
  for (const NewTask& task : tasks) {
    types.add(task.type);
    payloads.add(task.payload);
    priorities.add(task.priority);
    if (task.run_at) {
      run_ats.add(microseconds_since_1970(*task.run_at));
    } else {
      run_ats.add_null();
    }
    delays.add(task.delay.count());
    max_attempts.add(task.max_attempts);
    if (task.unique_key.empty()) {
      keys.add_null();
    } else {
      keys.add(task.unique_key);
    }
  }
  Params params;
  params.add(std::move(types))
      .add(std::move(payloads))
      .add(std::move(priorities))
      .add(std::move(run_ats))
      .add(std::move(delays))
      .add(std::move(max_attempts))
      .add(std::move(keys))
      .add(channel_);
  return params;
}

std::vector<Enqueued> PostgresTaskStore::enqueue(std::span<const NewTask> tasks) {
  auto answers = to_enqueued(pool_.run(enqueue_statement(tasks), enqueue_params(tasks)));
  for (const NewTask& task : tasks) {
    if (task.run_at) claims_.forget(task.type);  // perhaps before what was leased last
  }
  return answers;
}

std::vector<Enqueued> PostgresTaskStore::enqueue_in(pqxx::transaction_base& transaction,
                                                    std::span<const NewTask> tasks) {
  return to_enqueued(execute(transaction, enqueue_statement(tasks).text, enqueue_params(tasks)));
}

std::vector<LeasedTask> PostgresTaskStore::lease(const LeaseRequest& request) {
  if (request.limit >= small) return claims_.lease(request);
  SmallCall call = LeaseCall{request, {}, {}};
  small_calls_.submit(call);
  auto& lease = std::get<LeaseCall>(call);
  if (lease.error) std::rethrow_exception(lease.error);
  return std::move(lease.tasks);
}

std::vector<TaskId> PostgresTaskStore::extend(std::span<const LeaseKey> keys,
                                              milliseconds duration) {
  Params params;
  add_keys(params, keys);
  params.add(duration.count());
  return to_ids(pool_.run(statements_.extend, params));
}

std::vector<TaskId> PostgresTaskStore::complete(std::span<const FinishedTask> tasks, Keep keep) {
  if (tasks.size() >= small) return complete_alone(tasks, keep);
  SmallCall small_call = CompleteCall{tasks, keep, {}};
  small_calls_.submit(small_call);
  auto& call = std::get<CompleteCall>(small_call);
  if (call.beside_a_lease && call.accepted.size() < tasks.size()) complete_what_was_left_out(call);
  return std::move(call.accepted);
}

const Statement& PostgresTaskStore::completion_statement(Keep keep) const {
  return keep == Keep::yes ? statements_.complete : statements_.complete_and_delete;
}

std::vector<TaskId> PostgresTaskStore::complete_alone(std::span<const FinishedTask> tasks,
                                                      Keep keep) {
  return to_ids(pool_.run(completion_statement(keep), completion_params(tasks, keep)));
}

/// Either its lease is not the caller's any more, or somebody had locked it: then we wait.
void PostgresTaskStore::complete_what_was_left_out(CompleteCall& call) {
  std::vector<FinishedTask> left_out;
  std::copy_if(call.tasks.begin(), call.tasks.end(), std::back_inserter(left_out),
               [&](const FinishedTask& task) {
                 return std::find(call.accepted.begin(), call.accepted.end(), task.key.id) ==
                        call.accepted.end();
               });
  try {
    const auto accepted = complete_alone(left_out, call.keep);
    call.accepted.insert(call.accepted.end(), accepted.begin(), accepted.end());
  } catch (const Error& error) {
    if (call.accepted.empty()) throw;
    throw OutcomeUnknown(error.what());  // the others are completed
  }
}

bool PostgresTaskStore::may_go_together(std::span<SmallCall* const> chosen, const SmallCall& next) {
  if (chosen.size() >= small) return false;
  const auto leases = only<LeaseCall>(chosen);
  const auto completions = only<CompleteCall>(chosen);
  if (const auto* lease = std::get_if<LeaseCall>(&next)) {
    if (leases.empty()) return claims_.is_quick(lease->request);
    const LeaseRequest& first = leases.front()->request;
    return first.worker == lease->request.worker && first.duration == lease->request.duration &&
           first.types == lease->request.types;
  }
  // It stays locked until the lease is done, and its renewal would wait for that.
  if (completions.empty()) return claims_.is_quick(leases.front()->request);
  const auto& completion = std::get<CompleteCall>(next);
  // The answer names ids: two versions of one task could not be told apart.
  const auto fits = [&](const CompleteCall* other) {
    return other->keep == completion.keep &&
           std::none_of(other->tasks.begin(), other->tasks.end(), [&](const auto& task) {
             return std::any_of(completion.tasks.begin(), completion.tasks.end(),
                                [&](const auto& mine) { return mine.key.id == task.key.id; });
           });
  };
  return std::all_of(completions.begin(), completions.end(), fits);
}

/// All want the same.
LeaseRequest PostgresTaskStore::sum_of(std::span<LeaseCall* const> calls) {
  LeaseRequest request = calls.front()->request;
  request.limit = 0;
  for (const LeaseCall* call : calls) request.limit += call->request.limit;
  return request;
}

/// Who came first is served first.
void PostgresTaskStore::share_out(std::vector<LeasedTask> tasks,
                                  std::span<LeaseCall* const> calls) {
  auto next = std::make_move_iterator(tasks.begin());
  const auto end = std::make_move_iterator(tasks.end());
  for (LeaseCall* call : calls) {
    const auto share = std::min<std::ptrdiff_t>(std::ptrdiff_t(call->request.limit), end - next);
    call->tasks.assign(next, next + share);
    next += share;
  }
}

/// In order of id, as the statements want them.
std::vector<FinishedTask> PostgresTaskStore::tasks_of(std::span<CompleteCall* const> calls) {
  std::vector<FinishedTask> all;
  for (const CompleteCall* call : calls) {
    all.insert(all.end(), call->tasks.begin(), call->tasks.end());
  }
  std::sort(all.begin(), all.end(),
            [](const FinishedTask& a, const FinishedTask& b) { return a.key.id < b.key.id; });
  return all;
}

void PostgresTaskStore::share_out(std::vector<TaskId> accepted,
                                  std::span<CompleteCall* const> calls) {
  std::sort(accepted.begin(), accepted.end());
  for (CompleteCall* call : calls) {
    call->accepted.clear();
    for (const FinishedTask& task : call->tasks) {
      if (std::binary_search(accepted.begin(), accepted.end(), task.key.id)) {
        call->accepted.push_back(task.key.id);
      }
    }
  }
}

/// One statement for all of them.
void PostgresTaskStore::run(std::span<SmallCall* const> calls) {
  const auto leases = only<LeaseCall>(calls);
  const auto completions = only<CompleteCall>(calls);
  if (completions.empty()) {
    share_out(claims_.lease(sum_of(leases)), leases);
    return;
  }
  const Keep keep = completions.front()->keep;
  const auto finished = tasks_of(completions);
  if (leases.empty()) {
    share_out(complete_alone(finished, keep), completions);
    return;
  }
  Claims::Companion companion{
      keep == Keep::yes ? statements_.lease_and_complete : statements_.lease_and_delete,
      completion_params(finished, keep),
      {},
      {}};
  auto leased = claims_.lease(sum_of(leases), &companion);
  share_out(std::move(leased), leases);
  for (LeaseCall* call : leases) call->error = companion.error;
  share_out(std::move(companion.accepted), completions);
  for (CompleteCall* call : completions) call->beside_a_lease = true;
}

LeaseWrite PostgresTaskStore::complete_in(pqxx::transaction_base& transaction,
                                          const FinishedTask& task, Keep keep) {
  const auto& text = completion_statement(keep).text;
  const auto reply = execute(transaction, text, completion_params({&task, 1}, keep));
  return reply.empty() ? LeaseWrite::stale : LeaseWrite::accepted;
}

std::vector<TaskId> PostgresTaskStore::release(std::span<const LeaseKey> keys,
                                               std::optional<milliseconds> delay) {
  Params params;
  add_keys(params, keys);
  params.add(delay ? std::optional(delay->count()) : std::nullopt);
  const auto reply = pool_.run(statements_.release, params);
  for (const auto& row : reply) claims_.forget(row[1].c_str());
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

std::optional<TaskRecord> PostgresTaskStore::get(TaskId id) {
  Params params;
  params.add(id.value);
  const auto reply = pool_.run(statements_.get, params);
  if (reply.empty()) return std::nullopt;
  return to_task_record(reply[0]);
}

std::vector<TaskRecord> PostgresTaskStore::list(const TaskFilter& filter) {
  Params params;
  params.add(filter.type);
  params.add(filter.state ? std::optional(std::string(to_string(*filter.state))) : std::nullopt);
  params.add(filter.worker).add(filter.after.value).add(static_cast<std::int64_t>(filter.limit));
  std::vector<TaskRecord> tasks;
  for (const auto& row : pool_.run(statements_.list, params)) tasks.push_back(to_task_record(row));
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
    // The server's own views can be closed to us; the queue's tables are not.
    if (refused.reason() != ServerRefused::Reason::permission) throw;
  }
  return health;
}

Update PostgresTaskStore::update(TaskId id, TaskVersion expected, const TaskChanges& changes) {
  Params params;
  params.add(id.value).add(expected.value).add(changes.payload).add(changes.priority);
  params.add(changes.run_at ? std::optional(microseconds_since_1970(*changes.run_at))
                            : std::nullopt);
  params.add(changes.progress);
  const auto reply = pool_.run(statements_.update, params);
  if (!reply.empty()) {
    claims_.forget(reply[0][1].c_str());
    return {Update::Outcome::updated, TaskVersion{reply[0][0].as<std::int64_t>()}};
  }
  const auto record = get(id);
  if (!record) return {Update::Outcome::not_found, {}};
  if (record->version == expected && record->state == TaskState::leased) {
    return {Update::Outcome::leased, expected};
  }
  return {Update::Outcome::conflict, record->version};
}

CancelOutcome PostgresTaskStore::cancel(TaskId id) {
  Params params;
  params.add(id.value);
  const auto reply = pool_.run(statements_.cancel, params);
  if (!reply[0][1].as<bool>()) return CancelOutcome::not_found;
  if (reply[0][0].is_null()) return CancelOutcome::finished;
  return to_state(reply[0][0].c_str()) == TaskState::leased ? CancelOutcome::was_leased
                                                            : CancelOutcome::was_pending;
}

RetryOutcome PostgresTaskStore::retry(TaskId id) {
  Params params;
  params.add(id.value).add(channel_);
  try {
    const auto reply = pool_.run(statements_.retry, params);
    if (reply[0][0].as<bool>()) return RetryOutcome::requeued;
    return reply[0][1].as<bool>() ? RetryOutcome::not_dead : RetryOutcome::not_found;
  } catch (const SqlRefused& refused) {
    if (refused.sqlstate() == sqlstate::unique_violation) return RetryOutcome::key_taken;
    throw;
  }
}

std::vector<RecoveredTask> PostgresTaskStore::recover(TaskId after,
                                                      const RecoveryOptions& options) {
  Params params;
  params.add(after.value)
      .add(static_cast<std::int64_t>(options.batch))
      .add(static_cast<std::int64_t>(options.max_crashes));
  std::vector<RecoveredTask> tasks;
  for (const auto& row : pool_.run(statements_.recover, params)) {
    tasks.push_back(to_recovered(row));
    claims_.forget(tasks.back().type);
  }
  return tasks;
}

std::uint64_t PostgresTaskStore::remove_finished(TaskState state, milliseconds age,
                                                 std::size_t chunk) {
  Params params;
  params.add(std::string_view(to_string(state)))
      .add(age.count())
      .add(static_cast<std::int64_t>(chunk));
  return pool_.run(statements_.remove_finished, params)[0][0].as<std::uint64_t>();
}

std::unique_ptr<TaskStore> PostgresTaskStore::twin(milliseconds patience) const {
  TaskQueueOptions options = options_;
  options.postgres.connections = 1;
  options.postgres.command_timeout = std::min(patience, options.postgres.command_timeout);
  return std::make_unique<PostgresTaskStore>(uri_, options);
}

std::unique_ptr<TaskListener> PostgresTaskStore::listen() const {
  return std::make_unique<PostgresListener>(uri_, statements_.listen);
}

}  // namespace postgres

std::unique_ptr<TaskStore> open_postgres_task_store(std::string_view uri,
                                                    const TaskQueueOptions& options) {
  postgres::check_postgres_options(options.postgres);
  return std::make_unique<postgres::PostgresTaskStore>(
      postgres::parse_uri(uri, options.postgres.connect_timeout), options);
}

}  // namespace leasehold::inline v0
