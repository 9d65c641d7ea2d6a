// leasehold demo: workers are killed before your eyes, and everything is done exactly once.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <iostream>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include "book.hpp"
#include "commands.hpp"
#include "fleet.hpp"
#include "harness/postgres_server.hpp"
#include "harness/redis_server.hpp"
#include "harness/temp_dir.hpp"
#include "leasehold/errors.hpp"
#include "leasehold/migrate.hpp"
#include "leasehold/recovery.hpp"
#include "support/sleep.hpp"
#include "table.hpp"
#include "text.hpp"
#include "worker/secrets.hpp"
#include "worker/signals.hpp"

namespace leasehold::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using namespace std::chrono_literals;

struct DemoFlags {
  std::string on = "sqlite";
  std::string workers = "6";
  std::string tasks = "3000";
  std::string seconds = "12";
  std::string seed;
};

struct DemoOptions {
  bool on_servers = false;
  std::size_t workers = 0;
  std::uint64_t tasks = 0;
  std::chrono::seconds chaos{};
  std::uint64_t seed = 0;
  DemoWorkerOptions worker;
};

DemoOptions parse(const DemoFlags& flags) {
  if (flags.on != "sqlite" && flags.on != "servers") {
    throw InvalidArgument("--on of " + worker::shown(flags.on) + ": allowed are sqlite, servers");
  }
  DemoOptions options;
  options.on_servers = flags.on == "servers";
  options.workers = static_cast<std::size_t>(parse_number("--workers", flags.workers, 1, 64));
  options.tasks = static_cast<std::uint64_t>(parse_number("--tasks", flags.tasks, 1, 100'000));
  options.chaos = std::chrono::seconds{parse_number("--seconds", flags.seconds, 1, 3'600)};
  options.seed =
      flags.seed.empty()
          ? std::random_device{}() % 10'000
          : static_cast<std::uint64_t>(parse_number("--seed", flags.seed, 0, 1'000'000'000));
  // So long that the work lasts for about as long as the killing, whatever the numbers are.
  const auto threads = options.workers * options.worker.concurrency * 2;
  // So many that a lock is free most of the time.
  options.worker.accounts = std::max<std::int64_t>(100, 4 * static_cast<std::int64_t>(threads));
  options.worker.work =
      milliseconds{std::clamp<std::int64_t>(static_cast<std::int64_t>(threads) * options.chaos /
                                                1ms / 2 / static_cast<std::int64_t>(options.tasks),
                                            1, 1'000)};
  return options;
}

/// Stores that nobody else has; gone with this object.
class PrivateStores {
 public:
  explicit PrivateStores(bool on_servers) {
    if (on_servers) {
      redis_.emplace();
      postgres_.emplace();
    }
  }

  Stores stores() const {
    StoreFlags flags;
    flags.redis = redis_ ? redis_->uri() : "sqlite:" + (dir_.path() / "locks.db").string();
    flags.database = postgres_ ? postgres_->uri() : "sqlite:" + (dir_.path() / "tasks.db").string();
    return {flags, {}};
  }

 private:
  harness::TempDir dir_;
  std::optional<harness::RedisServer> redis_;
  std::optional<harness::PostgresServer> postgres_;
};

/// What leaseholdd does, in a thread: takes expired leases back, and counts.
class Daemon {
 public:
  Daemon(const Stores& stores, std::uint64_t tasks)
      : queue_(stores.tasks()), tasks_(tasks), thread_([this](const std::stop_token& stop) {
          while (sleep_for(200ms, stop)) run_once();
        }) {}

  void stop() {
    thread_.request_stop();
    thread_.join();
    run_once();
  }

  std::uint64_t recovered() const { return recovered_; }
  std::uint64_t completed() const { return completed_; }
  bool all_done() const { return completed_ >= tasks_; }
  std::string error() const {
    const std::lock_guard guard(mutex_);
    return error_;
  }

 private:
  void run_once() {
    try {
      // A task that meets a killed worker again and again is none that kills its workers.
      recovered_ += Recovery{queue_, {.max_crashes = 1'000'000}}.run_once().tasks.size();
      std::uint64_t completed = 0;
      for (const TaskCount& count : queue_.counts(tasks_ + 1)) {
        if (count.state == TaskState::completed) completed += count.number;
      }
      completed_ = completed;
    } catch (const Error& error) {  // a frozen worker may be in the way: the next round is soon
      const std::lock_guard guard(mutex_);
      error_ = error.what();
    }
  }

  TaskQueue queue_;
  const std::uint64_t tasks_;
  std::atomic<std::uint64_t> recovered_{0};
  std::atomic<std::uint64_t> completed_{0};
  mutable std::mutex mutex_;
  std::string error_;  // protected by mutex_
  std::jthread thread_;
};

/// What was promised, and what became of it.
struct Ledger {
  FleetNews fleet;
  std::uint64_t tasks = 0;
  std::uint64_t completed = 0;
  std::uint64_t recovered = 0;
  Totals book;
  double seconds = 0;
  std::string last_error;  ///< of recovery

  std::uint64_t lost() const { return tasks - std::min(tasks, book.tasks_with_effect); }
  std::uint64_t doubled() const { return book.effects - book.tasks_with_effect; }
  /// Each booking adds 1 to a balance that was read before: what is missing was overwritten by
  /// somebody who held the same lock.
  std::uint64_t lock_violations() const {
    const auto bookings = static_cast<std::int64_t>(book.bookings);
    return book.tokens_not_growing +
           static_cast<std::uint64_t>(std::abs(bookings - book.sum_of_balances));
  }
  bool exactly_once() const { return lost() == 0 && doubled() == 0 && book.effects == tasks; }
  bool as_promised() const {
    return exactly_once() && lock_violations() == 0 && completed == tasks &&
           fleet.unexpected_ends == 0;
  }
};

std::string seconds_text(steady_clock::duration time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", std::chrono::duration<double>(time).count());
  return text;
}

/// Shows how it goes: redrawn in place on a terminal, a line a second elsewhere.
class Display {
 public:
  Display(const Session& session, const DemoOptions& options)
      : terminal_(session.terminal), silent_(session.json), options_(options) {}

  void title(const Stores& stores) const {
    if (silent_) return;
    std::cout
        << terminal_.paint(Colour::bold, "leasehold demo") << ": " << options_.workers
        << " worker processes, " << with_commas(options_.tasks) << " tasks, "
        << options_.worker.accounts << " accounts behind locks\n"
        << "locks in " << fit(stores.locks_where(), 60) << "\n"
        << "tasks in " << fit(stores.tasks_where(), 60) << "\n"
        << "Every other task adds 1 to an account, the rest leave a note. Workers are killed\n"
        << "(SIGKILL) or frozen (SIGSTOP) at random all the while; seed " << options_.seed
        << ".\n\n"
        << std::flush;
  }

  void show(const FleetNews& fleet, const Daemon& daemon) {
    if (silent_) return;
    const auto now = steady_clock::now();
    if (terminal_.interactive()) {
      draw(fleet, daemon, now);
    } else if (now >= next_line_) {
      next_line_ = now + 1s;
      std::cout << counters(fleet, daemon, now) << "\n" << std::flush;
    }
  }

  /// Leaves what was drawn as it is.
  void end(const FleetNews& fleet, const Daemon& daemon) {
    next_line_ = {};
    show(fleet, daemon);
    if (!silent_) std::cout << "\n";
  }

 private:
  std::string counters(const FleetNews& fleet, const Daemon& daemon,
                       steady_clock::time_point now) const {
    char line[128];
    std::snprintf(line, sizeof line,
                  "%6s  done %5llu  running %2llu  killed %2llu  frozen %2llu  recovered %3llu  "
                  "refused %2llu",
                  seconds_text(now - began_).c_str(),
                  static_cast<unsigned long long>(daemon.completed()),
                  static_cast<unsigned long long>(fleet.running),
                  static_cast<unsigned long long>(fleet.kills),
                  static_cast<unsigned long long>(fleet.freezes),
                  static_cast<unsigned long long>(daemon.recovered()),
                  static_cast<unsigned long long>(fleet.stale_writes_refused()));
    return line;
  }

  void draw(const FleetNews& fleet, const Daemon& daemon, steady_clock::time_point now) {
    const double share =
        static_cast<double>(daemon.completed()) / static_cast<double>(options_.tasks);
    std::string out = drawn_ ? "\x1b[3A" : "";
    const std::string numbers =
        with_commas(daemon.completed()) + " of " + with_commas(options_.tasks);
    // No line may be wrapped: there would be more of them to go up than three.
    const std::size_t columns = terminal_.columns() - 1;
    const std::size_t around = numbers.size() + 4;
    const std::size_t room = columns - std::min(columns, around);
    out += "\r " + terminal_.paint(Colour::green, bar(share, std::min<std::size_t>(50, room))) +
           " " + numbers + "\x1b[K\n";
    out += "\r" + fit(counters(fleet, daemon, now), columns) + "\x1b[K\n";
    out += "\r " + terminal_.paint(Colour::red, fit(fleet.last, columns - 1)) + "\x1b[K\n";
    drawn_ = true;
    std::cout << out << std::flush;
  }

  const Terminal terminal_;
  const bool silent_;
  const DemoOptions& options_;
  const steady_clock::time_point began_ = steady_clock::now();
  steady_clock::time_point next_line_;
  bool drawn_ = false;
};

void add_tasks_to_do(const Stores& stores, std::uint64_t number) {
  std::vector<NewTask> tasks(number, {.type = booking_type, .max_attempts = 1'000'000});
  for (std::size_t i = 1; i < tasks.size(); i += 2) tasks[i].type = note_type;
  TaskQueue queue = stores.tasks();
  queue.enqueue(tasks);
}

/// Until everything is done, or it can not be any more.
void run_fleet(Fleet& fleet, const Daemon& daemon, const DemoOptions& options, Display& display,
               const worker::Signals& signals) {
  std::minstd_rand random(static_cast<unsigned>(options.seed + 1));
  const auto began = steady_clock::now();
  const auto end_of_chaos = began + options.chaos;
  const auto give_up = end_of_chaos + 2min;
  const auto pause = [&] { return milliseconds{250 + random() % 400}; };
  auto next_strike = began + pause();
  while (!daemon.all_done() && steady_clock::now() < give_up) {
    const auto now = steady_clock::now();
    fleet.look_after();
    if (now >= next_strike && now < end_of_chaos) {
      fleet.strike();
      next_strike = now + pause();
    }
    display.show(fleet.news(), daemon);
    if (signals.wait(20ms) != 0) throw Failure(ExitCode::failed, "interrupted");
  }
}

void tell(const Session& session, const Ledger& ledger, const DemoOptions& options) {
  if (session.json) {
    Session::print({{"on", options.on_servers ? "servers" : "sqlite"},
                    {"seed", options.seed},
                    {"workers", options.workers},
                    {"seconds", ledger.seconds},
                    {"tasks", ledger.tasks},
                    {"executions", ledger.fleet.executions},
                    {"kills", ledger.fleet.kills},
                    {"freezes", ledger.fleet.freezes},
                    {"leases_recovered", ledger.recovered},
                    {"stale_writes_refused", ledger.fleet.stale_writes_refused()},
                    {"refused_by_version", ledger.fleet.refused_by_version},
                    {"refused_by_token", ledger.fleet.refused_by_token},
                    {"effects", ledger.book.effects},
                    {"exactly_once", ledger.exactly_once()},
                    {"doubled", ledger.doubled()},
                    {"lost", ledger.lost()},
                    {"lock_violations", ledger.lock_violations()},
                    {"ended_by_themselves", ledger.fleet.unexpected_ends},
                    {"as_promised", ledger.as_promised()}});
    return;
  }
  const auto line = [&](const char* name, std::uint64_t number, const std::string& what,
                        Colour colour = Colour::plain) {
    char start[64];
    std::snprintf(start, sizeof start, "  %-22s %8s", name, with_commas(number).c_str());
    std::cout << session.terminal.paint(colour, start)
              << (what.empty() ? "" : "  " + session.terminal.paint(Colour::dim, what)) << "\n";
  };
  const auto verdict = [](bool good) { return good ? Colour::green : Colour::red; };
  std::cout << session.terminal.paint(Colour::bold, "The ledger") << "\n";
  line("tasks", ledger.tasks, "added before the first worker started");
  line("executions", ledger.fleet.executions, "handlers begun, also those that were killed");
  line("kills", ledger.fleet.kills, "processes ended by SIGKILL");
  line("freezes", ledger.fleet.freezes, "stopped for longer than locks or leases last");
  line("leases recovered", ledger.recovered, "taken back from the dead and the frozen");
  line("stale writes refused", ledger.fleet.stale_writes_refused(),
       with_commas(ledger.fleet.refused_by_version) + " by task version, " +
           with_commas(ledger.fleet.refused_by_token) + " by fencing token");
  line("effects", ledger.book.effects,
       ledger.exactly_once() ? "exactly one for each task" : "NOT one for each task",
       verdict(ledger.exactly_once()));
  line("done twice", ledger.doubled(), "", verdict(ledger.doubled() == 0));
  line("lost", ledger.lost(), "", verdict(ledger.lost() == 0));
  line("lock violations", ledger.lock_violations(), "balances overwritten, tokens out of order",
       verdict(ledger.lock_violations() == 0));
  if (ledger.fleet.unexpected_ends > 0) {
    line("ended by themselves", ledger.fleet.unexpected_ends, "workers", Colour::red);
  }
  if (ledger.as_promised()) {
    std::cout << "\n"
              << session.terminal.paint(Colour::green, "Everything as promised") << ", in "
              << seconds_text(std::chrono::duration_cast<steady_clock::duration>(
                     std::chrono::duration<double>(ledger.seconds)))
              << ".\n";
  }
}

ExitCode run_demo(Session& session, const DemoFlags& flags) {
  const DemoOptions options = parse(flags);
  const worker::Signals signals;  // before any thread is made
  const auto began = steady_clock::now();
  const PrivateStores place(options.on_servers);
  const Stores stores = place.stores();
  migrate(stores.task_uri());
  TaskQueue queue = stores.tasks();
  const auto book = Book::open(stores.task_uri(), queue);
  book->create(options.worker.accounts);
  add_tasks_to_do(stores, options.tasks);

  Display display(session, options);
  display.title(stores);
  Ledger ledger{.tasks = options.tasks};
  {
    Fleet fleet(stores, options.worker, options.workers, options.seed);
    Daemon daemon(stores, options.tasks);
    run_fleet(fleet, daemon, options, display, signals);
    fleet.stop();
    daemon.stop();
    display.end(fleet.news(), daemon);
    ledger.fleet = fleet.news();
    ledger.recovered = daemon.recovered();
    ledger.completed = daemon.completed();
    ledger.last_error = daemon.error();
  }
  ledger.book = book->totals();
  ledger.seconds = std::chrono::duration<double>(steady_clock::now() - began).count();
  tell(session, ledger, options);
  if (!ledger.as_promised()) {
    throw Failure(ExitCode::failed, "a promise was broken: see the ledger",
                  "Please report it, with the seed " + std::to_string(options.seed) +
                      (ledger.last_error.empty() ? "" : "; recovery said: " + ledger.last_error));
  }
  return ExitCode::done;
}

struct WorkerFlags {
  std::string concurrency = "2";
  std::string accounts = "100";
  std::string work = "50ms";
};

void add_worker(Commands& commands) {
  auto flags = std::make_shared<WorkerFlags>();
  CLI::App& app =
      commands.add_hidden("demo-worker", {.locks = true, .tasks = true}, [flags](Session& session) {
        return run_demo_worker(session.stores,
                               {.concurrency = static_cast<std::size_t>(
                                    parse_number("--concurrency", flags->concurrency, 1, 64)),
                                .accounts = parse_number("--accounts", flags->accounts, 1, 10'000),
                                .work = parse_duration("--work", flags->work, 0ms, 1h)});
      });
  app.add_option("--concurrency", flags->concurrency);
  app.add_option("--accounts", flags->accounts);
  app.add_option("--work", flags->work);
}

}  // namespace

void add_demo(Commands& commands) {
  auto flags = std::make_shared<DemoFlags>();
  CLI::App& app = commands.add(
      commands.root(),
      {.name = "demo",
       .summary = "Workers are killed before your eyes, and nothing is lost or done twice",
       .details =
           "Starts worker processes on stores of its own, kills and freezes them at random while "
           "they work, and shows how their tasks are recovered. Half of the tasks add 1 to an "
           "account: they take its lock, read the balance, work, and write the new balance, with "
           "the lock's fencing token. The others work and leave a note; only the version of the "
           "task keeps a worker that comes back too late from leaving a second one. Both write in "
           "the same transaction that completes the task. In the end the ledger says whether each "
           "task had its effect exactly once and whether two ever held a lock; exit code 1 if "
           "not.\n\n"
           "Needs nothing by default: the stores are files of SQLite in a temporary directory. "
           "With "
           "--on servers it starts a private Redis and PostgreSQL from the programs that are "
           "installed.",
       .examples = "leasehold demo\n"
                   "leasehold demo --on servers --workers 8 --seconds 20\n"
                   "leasehold demo --seed 42 --json"},
      {}, [flags](Session& session) { return run_demo(session, *flags); });
  const auto add = [&](const char* name, std::string& value, const char* type, const char* help) {
    app.add_option(name, value, help)->type_name(type);
  };
  add("--on", flags->on, "STORES", "sqlite or servers [sqlite]");
  add("--workers", flags->workers, "NUMBER", "Processes, 1 to 64 [6]");
  add("--tasks", flags->tasks, "NUMBER", "1 to 100000 [3000]");
  add("--seconds", flags->seconds, "NUMBER", "How long workers are killed [12]");
  add("--seed", flags->seed, "NUMBER", "Decides who is struck, and when [random]");
  add_worker(commands);
}

}  // namespace leasehold::cli
