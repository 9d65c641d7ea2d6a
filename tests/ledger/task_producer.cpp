#include "tests/ledger/task_producer.hpp"

#include <spdlog/logger.h>

#include <leasehold/postgres.hpp>
#include <pqxx/pqxx>
#include <set>
#include <utility>

#include "tests/ledger/effect_ledger.hpp"
#include "tests/ledger/ledger_worker.hpp"

namespace leasehold::testing {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t largest_batch = 300;
constexpr milliseconds pause{20};

// Whoever fails, fails because the server is away or somebody has cut the connection.
TaskQueueOptions quiet_options() {
  return {.postgres = {.connections = 1, .command_timeout = ledger_command_timeout},
          .logger = std::make_shared<spdlog::logger>("quiet")};
}

NewTask task_of(std::int64_t number) {
  return {.type = number % 2 == 0 ? "joined" : "guarded",
          .payload = std::to_string(number),
          .max_attempts = 1'000'000,
          .unique_key = std::to_string(number)};
}

}  // namespace

TaskProducer::TaskProducer(Options options)
    : options_(std::move(options)),
      random_(options_.seed),
      queue_(options_.uri, quiet_options()),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

pqxx::connection& TaskProducer::connection() {
  if (!connection_) connection_ = std::make_unique<pqxx::connection>(options_.uri);
  return *connection_;
}

void TaskProducer::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    if (!options_.more(added_)) break;
    try {
      if (number_of(connection(), "SELECT count(*) FROM leasehold.tasks") >= options_.backlog) {
        std::this_thread::sleep_for(pause);
        continue;
      }
    } catch (const std::exception&) {  // of libpqxx: the server is away
      connection_.reset();
      std::this_thread::sleep_for(pause);
      continue;
    }
    std::vector<NewTask> batch(1 + random_() % largest_batch);
    std::int64_t number = added_;
    for (NewTask& task : batch) task = task_of(number++);
    if (add(std::move(batch), stop)) added_ = number;
  }
  done_ = true;
}

bool TaskProducer::add(std::vector<NewTask> batch, const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    try {
      queue_.enqueue(batch);
      return true;
    } catch (const OutcomeUnknown&) {
      ++repeated_;
      break;
    } catch (const Error&) {  // it did not happen
      std::this_thread::sleep_for(pause);
    }
  }
  while (!stop.stop_requested()) {
    try {
      add_missing(batch);
      return true;
    } catch (const std::exception&) {  // ours or of libpqxx; repeating it is safe
      connection_.reset();
      std::this_thread::sleep_for(pause);
    }
  }
  return false;
}

// A key is free again once its task has ended, so that repeating the call alone could add a task a
// second time. With all keys taken by our own transaction, the first call can no longer add
// anything; what it has added is either still there or among the finished tasks.
void TaskProducer::add_missing(std::vector<NewTask>& batch) {
  pqxx::work transaction{connection()};
  enqueue_in(transaction, queue_, batch);
  std::string keys;
  for (const NewTask& task : batch) keys += (keys.empty() ? "{" : ",") + task.unique_key;
  std::set<std::string> ended;
  for (const auto& row : transaction.exec_params(
           "SELECT unique_key FROM leasehold.finished_tasks WHERE unique_key = ANY ($1::text[])",
           keys + "}")) {
    ended.insert(row[0].as<std::string>());
  }
  if (ended.empty()) return transaction.commit();
  transaction.abort();
  std::erase_if(batch, [&](const NewTask& task) { return ended.contains(task.unique_key); });
  if (!batch.empty()) add_missing(batch);
}

}  // namespace leasehold::testing
