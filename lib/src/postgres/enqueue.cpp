#include <algorithm>

#include "postgres/callers_transaction.hpp"
#include "postgres/notifications.hpp"
#include "postgres/postgres_task_store.hpp"
#include "postgres/pqxx_bridge.hpp"

namespace leasehold::inline v0::postgres {
namespace {

std::vector<Enqueued> to_enqueued(const pqxx::result& reply) {
  std::vector<Enqueued> answers;
  answers.reserve(static_cast<std::size_t>(reply.size()));
  for (const auto& row : reply) {
    answers.push_back({TaskId{row[0].as<std::int64_t>()},
                       row[1].as<bool>() ? Enqueued::Outcome::exists : Enqueued::Outcome::added});
  }
  return answers;
}

}  // namespace

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
      run_ats.add(us_since_1970(*task.run_at));
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
  const auto notification = channel_ ? notification_of(tasks) : std::nullopt;
  Params params;
  params.add(std::move(types))
      .add(std::move(payloads))
      .add(std::move(priorities))
      .add(std::move(run_ats))
      .add(std::move(delays))
      .add(std::move(max_attempts))
      .add(std::move(keys))
      .add(notification ? channel_ : std::nullopt)
      .add(notification.value_or(""));
  return params;
}

std::vector<Enqueued> PostgresTaskStore::enqueue(std::span<const NewTask> tasks) {
  auto answers = to_enqueued(pool_.run(enqueue_statement(tasks), enqueue_params(tasks)));
  for (const NewTask& task : tasks) {
    // It may come before the tasks that were leased last.
    if (task.run_at) leasing_.forget(task.type);
  }
  return answers;
}

std::vector<Enqueued> PostgresTaskStore::enqueue_in(const CallersTransaction& transaction,
                                                    std::span<const NewTask> tasks) {
  return in_transaction_of_caller(transaction, [&](pqxx::transaction_base& callers) {
    return to_enqueued(execute(callers, enqueue_statement(tasks).text, enqueue_params(tasks)));
  });
}

}  // namespace leasehold::inline v0::postgres
