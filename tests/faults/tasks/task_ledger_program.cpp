// A worker process of the ledger (tests/ledger), for killing and freezing. SIGTERM stops it.
//
//   task_ledger_program URI NAME WORK BUG
//
// WORK is how many ms a handler works, BUG one of tests/ledger/ledger_bug.hpp. Types it handles:
//   joined   has its effect and completes in the same transaction
//   guarded  has its effect in a transaction of its own, which is refused if a newer version of the
//            task was seen
#include <pthread.h>

#include <chrono>
#include <csignal>
#include <iostream>
#include <leasehold/postgres.hpp>
#include <leasehold/tasks.hpp>
#include <memory>
#include <pqxx/pqxx>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/ledger/ledger_bug.hpp"
#include "tests/ledger/ledger_worker.hpp"

namespace leasehold::testing {
namespace {

struct Options {
  std::string uri;
  std::string name;
  std::chrono::milliseconds work{0};
  LedgerBug bug = LedgerBug::none;
};

/// The effects of tasks, on one connection, which is made again after any failure. For one thread.
class Effects {
 public:
  explicit Effects(const Options& options) : options_(options) {}

  /// Calls join() or guard().
  void have(void (Effects::*effect)(Task&), Task& task) {
    try {
      (this->*effect)(task);
    } catch (const LeaseLost&) {
      pqxx::nontransaction{connection()}.exec_params("INSERT INTO refusals VALUES ($1)",
                                                     task.id().value);
      throw;
    } catch (...) {
      connection_.reset();
      throw;
    }
  }

  void join(Task& task) {
    if (options_.bug == LedgerBug::effect_outside) {
      enter_alone(task);
      work();
      return complete_alone(task);
    }
    if (options_.bug == LedgerBug::effect_after_completion) {
      complete_alone(task);
      work();
      return enter_alone(task);
    }
    pqxx::work transaction{connection()};
    enter(transaction, task);
    work();
    complete_in(transaction, task);
    transaction.commit();
  }

  void guard(Task& task) {
    pqxx::nontransaction each_by_itself{connection()};
    const auto claim = each_by_itself.exec_prepared("claim", task.id().value, task.version().value);
    if (claim.empty()) throw LeaseLost("a newer version has begun");
    if (claim[0][0].as<bool>()) return;  // an earlier attempt had the effect
    work();
    const auto written = each_by_itself.exec_prepared("guarded", task.payload(), task.id().value,
                                                      task.version().value, options_.name,
                                                      options_.bug == LedgerBug::unguarded_effect);
    if (written.affected_rows() == 0) throw LeaseLost("a newer version has begun meanwhile");
  }

 private:
  pqxx::connection& connection() {
    if (connection_) return *connection_;
    connection_ = std::make_unique<pqxx::connection>(options_.uri + "?application_name=handlers-" +
                                                     options_.name);
    connection_->prepare("effect", "INSERT INTO ledger VALUES ($1, $2, $3, $4)");
    connection_->prepare("claim",
                         "INSERT INTO claims AS c (task, version) VALUES ($1, $2) "
                         "ON CONFLICT (task) DO UPDATE SET version = excluded.version "
                         "WHERE c.version < excluded.version RETURNING c.done");
    connection_->prepare("guarded",
                         "WITH mine AS (UPDATE claims SET done = true "
                         "              WHERE task = $2 AND (version = $3 OR $5::boolean) "
                         "              RETURNING task) "
                         "INSERT INTO ledger SELECT $1::bigint, task, $3, $4 FROM mine");
    return *connection_;
  }
  void enter(pqxx::transaction_base& transaction, const Task& task) const {
    transaction.exec_prepared("effect", task.payload(), task.id().value, task.version().value,
                              options_.name);
  }
  void enter_alone(const Task& task) {
    pqxx::work transaction{connection()};
    enter(transaction, task);
    transaction.commit();
  }
  void complete_alone(Task& task) {
    pqxx::work transaction{connection()};
    complete_in(transaction, task);
    transaction.commit();
  }
  void work() const { std::this_thread::sleep_for(options_.work); }

  const Options& options_;
  std::unique_ptr<pqxx::connection> connection_;
};

void run(const Options& options) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // before any other thread is made
  const int max_crashes = options.bug == LedgerBug::convict_innocent ? 1 : ledger_max_crashes;
  TaskQueue queue{
      options.uri + "?application_name=queue-" + options.name,
      {.postgres = {.connections = ledger_pool, .command_timeout = ledger_command_timeout},
       .recovery = RecoveryOptions{.max_crashes = max_crashes}}};
  Worker worker{queue,
                {.concurrency = ledger_threads,
                 .lease = ledger_lease,
                 .poll_max = std::chrono::milliseconds{200},
                 .name = options.name}};
  const auto handle = [&](const std::string& type, void (Effects::*effect)(Task&)) {
    worker.on(type,
              [&options, effect](Task& task) {
                thread_local Effects effects{options};
                effects.have(effect, task);
              },
              {.retry = Retry::after(std::chrono::milliseconds{50})});
  };
  handle("joined", &Effects::join);
  handle("guarded", &Effects::guard);

  std::vector<std::unique_ptr<pqxx::connection>> extra;
  if (options.bug == LedgerBug::extra_connections) {
    for (std::size_t i = 0; i < ledger_queue_backends; ++i) {
      extra.push_back(std::make_unique<pqxx::connection>(options.uri + "?application_name=queue-" +
                                                         options.name));
    }
  }
  std::stop_source stop;
  std::thread([&] {
    int signal = 0;
    sigwait(&signals, &signal);
    stop.request_stop();
    sigwait(&signals, &signal);  // for ever; the process ends meanwhile
  }).detach();
  worker.run(stop.get_token());
  std::_Exit(0);  // the thread that waits for signals uses what is on our stack
}

}  // namespace
}  // namespace leasehold::testing

int main(int argc, char** argv) {
  using namespace leasehold::testing;
  try {
    if (argc != 5) throw std::invalid_argument("expected URI NAME WORK BUG");
    run({.uri = argv[1],
         .name = argv[2],
         .work = std::chrono::milliseconds{std::stol(argv[3])},
         .bug = ledger_bug(argv[4])});
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
