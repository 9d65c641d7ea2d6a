// A worker process for tests to kill, pause and stop. SIGTERM stops it gracefully, a second one
// now.
//
//   worker_program URI [concurrency=N] [lease=MS] [prefetch=N] [poll_max=MS] [grace=MS] [work=MS]
//                  [listen=0|1] [name=NAME] [max_crashes=N]
//
// It takes back expired leases only if max_crashes is given.
//
// Types it handles:
//   ledger  adds (task, worker) to the table ledger and completes in the same transaction, after
//           `work` ms. Refused, it adds the task to the table refusals.
//   watch   says "started ID", waits for its token, says "told REASON", tries to write, says
//           "progress accepted|stale" and returns
//   sleep   sleeps for as many ms as its payload says, whatever happens
//   poison  kills the process
//   noop    nothing
//
// Says "ready" when it begins, "stopping" at the first signal, and at its end
// "stats completed=N stale_writes=N released=N lost=N".
#include <pthread.h>
#include <sqlite3.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <iostream>
#include <leasehold/postgres.hpp>
#include <leasehold/sqlite.hpp>
#include <leasehold/tasks.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <pqxx/pqxx>
#include <stdexcept>
#include <string>
#include <thread>

using leasehold::Task;
using std::chrono::milliseconds;

namespace {

class Options {
 public:
  Options(int argc, char** argv) {
    for (int i = 2; i < argc; ++i) {
      const std::string word = argv[i];
      const auto equals = word.find('=');
      if (equals == std::string::npos) throw std::runtime_error("NAME=VALUE expected: " + word);
      given_[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
  long number(const std::string& name, long otherwise) const {
    const auto found = given_.find(name);
    return found == given_.end() ? otherwise : std::stol(found->second);
  }
  std::string text(const std::string& name) const {
    const auto found = given_.find(name);
    return found == given_.end() ? "" : found->second;
  }

 private:
  std::map<std::string, std::string> given_;
};

void say(const std::string& line) {
  static std::mutex mutex;
  const std::lock_guard guard(mutex);
  std::cout << line << std::endl;  // at once: somebody waits for it
}

/// Where tasks have their effects.
class Ledger {
 public:
  virtual ~Ledger() = default;
  virtual void enter(Task& task) = 0;
};

/// One connection a thread, made again after any failure.
class PostgresLedger : public Ledger {
 public:
  explicit PostgresLedger(std::string uri) : uri_(std::move(uri)) {}

  void enter(Task& task) override {
    try {
      if (!connection_) connection_ = std::make_unique<pqxx::connection>(uri_);
      pqxx::work transaction{*connection_};
      const auto id = std::to_string(task.id().value);
      transaction.exec("INSERT INTO ledger VALUES (" + id + ", " + std::to_string(::getpid()) +
                       ")");
      leasehold::complete_in(transaction, task);
      transaction.commit();
    } catch (const leasehold::LeaseLost&) {
      pqxx::nontransaction{*connection_}.exec("INSERT INTO refusals VALUES (" +
                                              std::to_string(task.id().value) + ")");
      throw;
    } catch (...) {
      connection_.reset();
      throw;
    }
  }

 private:
  const std::string uri_;
  std::unique_ptr<pqxx::connection> connection_;
};

/// The same beside the tasks in a SQLite file.
class SqliteLedger : public Ledger {
 public:
  explicit SqliteLedger(const std::string& path) {
    sqlite3_open(path.c_str(), &handle_);
    sqlite3_busy_timeout(handle_, 60'000);
  }
  ~SqliteLedger() override { sqlite3_close(handle_); }

  void enter(Task& task) override {
    const auto id = std::to_string(task.id().value);
    try {
      execute("BEGIN IMMEDIATE");
      execute("INSERT INTO ledger VALUES (" + id + ", " + std::to_string(::getpid()) + ")");
      leasehold::complete_in(handle_, task);
      execute("COMMIT");
    } catch (const leasehold::LeaseLost&) {
      execute("ROLLBACK");
      execute("INSERT INTO refusals VALUES (" + id + ")");
      throw;
    } catch (...) {
      sqlite3_exec(handle_, "ROLLBACK", nullptr, nullptr, nullptr);
      throw;
    }
  }

 private:
  void execute(const std::string& sql) {
    if (sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
      throw std::runtime_error(sql + ": " + sqlite3_errmsg(handle_));
    }
  }

  sqlite3* handle_ = nullptr;
};

std::unique_ptr<Ledger> open_ledger(const std::string& uri) {
  const std::string in_file = "sqlite:";
  if (uri.starts_with(in_file)) return std::make_unique<SqliteLedger>(uri.substr(in_file.size()));
  return std::make_unique<PostgresLedger>(uri);
}

void watch(Task& task) {
  say("started " + std::to_string(task.id().value));
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait(lock, task.stop_token(), [] { return false; });
  say(std::string("told ") + to_string(task.stop_reason()));
  say(std::string("progress ") + to_string(task.progress("1")));
}

void run(const std::string& uri, const Options& options) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // before any other thread is made
  std::optional<leasehold::RecoveryOptions> recovery;
  if (const int max_crashes = int(options.number("max_crashes", 0))) {
    recovery.emplace().max_crashes = max_crashes;
  }
  leasehold::TaskQueue queue{uri, {.recovery = recovery}};
  leasehold::Worker worker{queue,
                           {.concurrency = std::size_t(options.number("concurrency", 4)),
                            .lease = milliseconds{options.number("lease", 30'000)},
                            .prefetch = std::size_t(options.number("prefetch", 1'000)),
                            .poll_max = milliseconds{options.number("poll_max", 200)},
                            .wake_up = options.number("listen", 1) == 1 ? leasehold::WakeUp::listen
                                                                        : leasehold::WakeUp::poll,
                            .stop_grace = milliseconds{options.number("grace", 10'000)},
                            .name = options.text("name")}};
  const milliseconds work{options.number("work", 0)};
  worker.on("ledger",
            [&](Task& task) {
              thread_local const auto ledger = open_ledger(uri);
              if (work > milliseconds{0}) std::this_thread::sleep_for(work);
              ledger->enter(task);
            },
            {.retry = leasehold::Retry::after(milliseconds{50})});
  worker.on("watch", watch);
  worker.on("sleep", [](Task& task) {
    say("started " + std::to_string(task.id().value));
    std::this_thread::sleep_for(milliseconds{std::stol(task.payload())});
  });
  worker.on("poison", [](Task&) { ::kill(::getpid(), SIGKILL); });
  worker.on("noop", [](Task&) {});

  std::stop_source stop;
  std::thread([&] {
    int signal = 0;
    sigwait(&signals, &signal);
    say("stopping");
    stop.request_stop();
    sigwait(&signals, &signal);
    worker.stop_now();
    sigwait(&signals, &signal);  // for ever; the process ends meanwhile
  }).detach();

  say("ready");
  worker.run(stop.get_token());
  const auto stats = worker.stats();
  say("stats completed=" + std::to_string(stats.completed) +
      " stale_writes=" + std::to_string(stats.stale_writes) +
      " released=" + std::to_string(stats.released) + " lost=" + std::to_string(stats.lost));
  std::_Exit(0);  // the thread that waits for signals uses what is on our stack
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  try {
    run(argv[1], Options(argc, argv));
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
