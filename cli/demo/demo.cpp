// leasehold demo: worker processes are killed, and every task takes effect exactly once.
#include <random>

#include "book.hpp"
#include "commands.hpp"
#include "common/signals.hpp"
#include "demo_options.hpp"
#include "display.hpp"
#include "flag_values.hpp"
#include "fleet.hpp"
#include "leasehold/migrate.hpp"
#include "ledger.hpp"
#include "private_stores.hpp"
#include "recovery_thread.hpp"

namespace leasehold::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using namespace std::chrono_literals;

void add_tasks_to_do(TaskQueue& queue, std::uint64_t number) {
  std::vector<NewTask> tasks(number, {.type = booking_type, .max_attempts = 1'000'000});
  for (std::size_t i = 1; i < tasks.size(); i += 2) tasks[i].type = note_type;
  queue.enqueue(tasks);
}

/// Runs until everything is done, or it takes far too long.
void run_fleet(Fleet& fleet, const RecoveryThread& recovery, const DemoOptions& options,
               Display& display, const common::Signals& signals) {
  std::minstd_rand random(static_cast<unsigned>(options.seed + 1));
  const auto began = steady_clock::now();
  const auto end_of_chaos = began + options.chaos;
  const auto give_up = end_of_chaos + 2min;
  const auto pause = [&] { return milliseconds{250 + random() % 400}; };
  auto next_strike = began + pause();
  while (!recovery.all_done() && steady_clock::now() < give_up) {
    const auto now = steady_clock::now();
    fleet.look_after();
    if (now >= next_strike && now < end_of_chaos) {
      fleet.strike();
      next_strike = now + pause();
    }
    display.show(fleet.news(), recovery);
    if (signals.wait(20ms) != 0) throw Failure(ExitCode::failed, "interrupted");
  }
}

ExitCode run_demo(Session& session, const DemoFlags& flags) {
  const DemoOptions options = parse_demo_flags(flags);
  const common::Signals signals;  // before any thread is started
  const auto began = steady_clock::now();
  const PrivateStores place(options.on_servers, flags.redis);
  const Stores stores = place.stores();
  // Now, because the workers would only try again and again to reach a Redis that cannot be used.
  stores.locks(NewFile::created).status("leasehold-demo");
  migrate(stores.task_uri());
  TaskQueue queue = stores.tasks();
  const auto book = Book::open(stores.task_uri(), queue);
  book->create(options.worker.accounts);
  add_tasks_to_do(queue, options.tasks);

  Display display(session, options);
  display.title(stores);
  Ledger ledger{.tasks = options.tasks};
  {
    Fleet fleet(stores, options.worker, options.workers, options.seed);
    RecoveryThread recovery(stores, options.tasks);
    run_fleet(fleet, recovery, options, display, signals);
    fleet.stop();
    recovery.stop();
    display.end(fleet.news(), recovery);
    ledger.fleet = fleet.news();
    ledger.recovered = recovery.recovered();
    ledger.completed = recovery.completed();
    ledger.last_error = recovery.error();
  }
  ledger.book = book->totals();
  ledger.seconds = std::chrono::duration<double>(steady_clock::now() - began).count();
  ledger.print(session, options);
  if (!ledger.as_promised()) {
    throw Failure(ExitCode::failed, "a promise was broken: see the ledger",
                  "Please report it with the seed " + std::to_string(options.seed) +
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

constexpr const char* details =
    "Starts worker processes on stores of its own, kills and freezes them at random while they "
    "work, and shows how their tasks are recovered.\n\n"
    "Half of the tasks add 1 to an account: they take its lock, read the balance, work, and write "
    "the new balance with the lock's fencing token. The others work and leave a note; only the "
    "version of the task keeps a worker that comes back too late from leaving a second one. Both "
    "write in the transaction that completes the task.\n\n"
    "At the end, the ledger says whether each task took effect exactly once, and whether a lock "
    "ever had two holders. The exit code is 1 if a promise was broken.\n\n"
    "By default nothing needs to be installed: the stores are SQLite files in a temporary "
    "directory. With --on servers the demo starts a private Redis and a private PostgreSQL, whose "
    "programs must be installed. With --redis it keeps its locks in a Redis of yours, under names "
    "that begin with leasehold-demo; what killed workers leave there is gone after an hour.";

}  // namespace

void add_demo(Commands& commands) {
  auto flags = std::make_shared<DemoFlags>();
  CLI::App& app =
      commands.add(commands.root(),
                   {.name = "demo",
                    .summary = "Kill workers, and see that nothing is lost or done twice",
                    .details = details,
                    .examples = "leasehold demo\n"
                                "leasehold demo --on servers --workers 8 --seconds 20\n"
                                "leasehold demo --redis redis+cluster://127.0.0.1:7000\n"
                                "leasehold demo --seed 42 --json"},
                   {}, [flags](Session& session) { return run_demo(session, *flags); });
  add_value(app, "--on", flags->on, "STORES", "Use sqlite or servers [sqlite]");
  add_value(app, "--redis", flags->redis, "URI", "Keep the locks in this Redis [a private store]");
  add_value(app, "--workers", flags->workers, "NUMBER", "Number of worker processes, 1 to 64 [6]");
  add_value(app, "--tasks", flags->tasks, "NUMBER", "Number of tasks, 1 to 100000 [3000]");
  add_value(app, "--seconds", flags->seconds, "NUMBER",
            "How long workers are killed and frozen [12]");
  add_value(app, "--seed", flags->seed, "NUMBER",
            "Decides which workers are killed, and when [random]");
  add_worker(commands);
}

}  // namespace leasehold::cli
