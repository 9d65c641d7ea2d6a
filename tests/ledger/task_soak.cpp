#include "tests/ledger/task_soak.hpp"

#include <algorithm>
#include <atomic>
#include <leasehold/tasks.hpp>
#include <memory>
#include <pqxx/pqxx>
#include <random>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "harness/postgres_server.hpp"
#include "tests/ledger/backend_watch.hpp"
#include "tests/ledger/effect_ledger.hpp"
#include "tests/ledger/ledger_worker.hpp"
#include "tests/ledger/task_producer.hpp"
#include "tests/ledger/worker_crew.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr seconds time_between_reports{10};
constexpr std::int64_t effects_between_faults = 50;
constexpr seconds longest_between_faults{1};
// Nothing changes for so long: it will not end.
constexpr seconds longest_standstill{90};
// Well past the lease, and so far past the time-out of statements that backends would pile up.
constexpr milliseconds time_frozen = ledger_lease * 3 / 2;
constexpr milliseconds time_locked = ledger_command_timeout * 4;

class Soak {
 public:
  explicit Soak(const TaskSoakOptions& options)
      : options_(options), random_(options.seed), begin_(steady_clock::now()) {
    migrate(server_.uri());
    pqxx::connection connection{server_.uri()};
    create_ledger(connection);
    if (options_.bug == LedgerBug::prefetched_count ||
        options_.bug == LedgerBug::convict_innocent) {
      count_prefetched(connection);
    }
    for (const auto& [name, least] : options_.faults) {
      todo_.insert(todo_.end(), static_cast<std::size_t>(least), name);
    }
    proportion_ = todo_;
    std::shuffle(todo_.begin(), todo_.end(), random_);
    if (todo_.empty()) all_faults_happened_ = true;
  }

  TaskSoakReport run() {
    const BackendWatch watch{server_.uri()};
    TaskProducer producer{{.uri = server_.uri() + "?application_name=producer",
                           .seed = random_(),
                           .backlog = std::clamp<std::int64_t>(options_.tasks / 10, 1'000, 5'000),
                           .more = [this](std::int64_t added) { return wants_more(added); }}};
    // Ends first: the producer may wait for a worker that is frozen in a transaction.
    WorkerCrew crew{{.uri = server_.uri(),
                     .bug = options_.bug,
                     .work = options_.work,
                     .log = options_.directory / "workers.log"},
                    random_};
    while (!producer.done()) {
      std::this_thread::sleep_for(milliseconds{100 + random_() % 400});
      crew.thaw();
      if (work_goes_on()) let_something_happen(crew);
      report_progress(producer.added());
    }
    crew.thaw_all();
    table_lock_ = {};
    const std::string left = await_end();
    crew.finish();
    return report(producer, watch, left);
  }

 private:
  // Workers that have nothing to do would feel no fault.
  bool wants_more(std::int64_t added) const {
    return added < options_.tasks || !all_faults_happened_ ||
           steady_clock::now() < begin_ + options_.time;
  }

  // Somebody works again, or has not been able to for a while: faults also coincide.
  bool work_goes_on() {
    pqxx::connection connection{server_.uri()};
    const auto effects = number_of(connection, "SELECT count(*) FROM ledger");
    if (effects < effects_before_ + effects_between_faults &&
        steady_clock::now() < last_fault_ + longest_between_faults) {
      return false;
    }
    effects_before_ = effects;
    last_fault_ = steady_clock::now();
    return true;
  }

  void let_something_happen(WorkerCrew& crew) {
    const bool due = !todo_.empty();
    if (!due && proportion_.empty()) return;
    const std::string fault = due ? todo_.back() : proportion_[random_() % proportion_.size()];
    if (!happens(fault, crew)) return;
    ++report_.faults[fault];
    if (due) todo_.pop_back();
    if (todo_.empty()) all_faults_happened_ = true;
  }

  /// False if it cannot happen now.
  bool happens(const std::string& fault, WorkerCrew& crew) {
    if (fault == "kill") {
      crew.kill_one();
      return true;
    }
    if (fault == "freeze") return crew.freeze_one(time_frozen);
    if (fault == "terminate") return terminate_some();
    if (fault == "lock_table") return lock_table();
    if (fault == "kill_server") {
      server_.kill();
      server_.start();
      return true;
    }
    throw std::invalid_argument("no fault is called " + fault);
  }

  bool terminate_some() {
    pqxx::connection connection{server_.uri()};
    pqxx::nontransaction{connection}.exec(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name ~ '^(queue-|handlers-|producer)' ORDER BY random() LIMIT " +
        std::to_string(1 + random_() % 5));
    return true;
  }

  // On a thread of its own: it may wait for a worker that is frozen in the middle of a transaction.
  bool lock_table() {
    if (table_is_locked_) return false;
    table_is_locked_ = true;
    table_lock_ = std::jthread([this](const std::stop_token& stop) {
      try {
        pqxx::connection connection{server_.uri()};
        pqxx::work transaction{connection};
        transaction.exec("LOCK TABLE leasehold.tasks IN ACCESS EXCLUSIVE MODE");
        const auto end = steady_clock::now() + time_locked;
        while (steady_clock::now() < end && !stop.stop_requested()) {
          std::this_thread::sleep_for(milliseconds{10});
        }
      } catch (const std::exception&) {  // of libpqxx: the server was killed meanwhile
      }
      table_is_locked_ = false;
    });
    return true;
  }

  void report_progress(std::int64_t added) {
    if (steady_clock::now() < next_report_) return;
    next_report_ = steady_clock::now() + time_between_reports;
    pqxx::connection connection{server_.uri()};
    std::ostringstream text;
    text << "seed " << options_.seed << ": " << added << " tasks added, "
         << number_of(connection, "SELECT count(*) FROM ledger") << " effects, " << total_faults()
         << " faults";
    options_.progress(text.str());
  }

  int total_faults() const {
    int total = 0;
    for (const auto& [name, times] : report_.faults) total += times;
    return total;
  }

  /// Waits until no task is left. Otherwise says how many are.
  std::string await_end() const {
    pqxx::connection connection{server_.uri()};
    std::int64_t left = -1;
    auto changed = steady_clock::now();
    while (steady_clock::now() < changed + longest_standstill) {
      const auto now_left = number_of(connection, "SELECT count(*) FROM leasehold.tasks");
      if (now_left == 0) return "";
      if (now_left != left) changed = steady_clock::now();
      left = now_left;
      std::this_thread::sleep_for(milliseconds{20});
    }
    return "nothing happened to the last " + std::to_string(left) + " tasks for " +
           std::to_string(longest_standstill.count()) + " s\n";
  }

  TaskSoakReport report(const TaskProducer& producer, const BackendWatch& watch,
                        const std::string& left) {
    pqxx::connection connection{server_.uri()};
    report_.tasks = producer.added();
    report_.repeated_enqueues = producer.repeated();
    report_.refused_effects = number_of(connection, "SELECT count(*) FROM refusals");
    report_.repeated_tasks =
        number_of(connection, "SELECT count(*) FROM leasehold.finished_tasks WHERE version > 2");
    report_.crashes =
        number_of(connection, "SELECT coalesce(sum(crash_count), 0) FROM leasehold.finished_tasks");
    report_.most_crashes = explained_crashes();
    report_.most_backends = watch.most();
    report_.violations =
        left + watch.violations() +
        check_ledger(connection, {.tasks = report_.tasks, .most_crashes = report_.most_crashes});
    return report_;
  }

  // A worker that is killed or frozen was running no more tasks than it has threads. If the table
  // is locked or the server is away, all workers may lose their leases; once more if the machine is
  // slow.
  std::int64_t explained_crashes() {
    const auto workers = std::int64_t{WorkerCrew::size};
    const std::int64_t losses =
        report_.faults["kill"] + report_.faults["freeze"] +
        workers * (1 + report_.faults["lock_table"] + report_.faults["kill_server"]);
    return losses * std::int64_t{ledger_threads};
  }

  static void count_prefetched(pqxx::connection_base& connection) {
    pqxx::nontransaction{connection}.exec(
        "CREATE FUNCTION all_are_started() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN NEW.started := true; RETURN NEW; END $$;"
        "CREATE TRIGGER all_are_started BEFORE UPDATE ON leasehold.tasks FOR EACH ROW "
        "WHEN (NEW.state = 'leased') EXECUTE FUNCTION all_are_started()");
  }

  const TaskSoakOptions& options_;
  std::mt19937_64 random_;
  const steady_clock::time_point begin_;
  steady_clock::time_point next_report_ = begin_ + time_between_reports;
  steady_clock::time_point last_fault_ = begin_;
  std::int64_t effects_before_ = 0;
  PostgresServer server_;
  std::vector<std::string> todo_;
  std::vector<std::string> proportion_;
  std::atomic<bool> all_faults_happened_{false};
  TaskSoakReport report_;
  std::atomic<bool> table_is_locked_{false};
  std::jthread table_lock_;  // last: it uses what is above
};

}  // namespace

TaskSoakReport soak_tasks(const TaskSoakOptions& options) {
  std::filesystem::create_directories(options.directory);
  const TaskSoakReport report = Soak{options}.run();
  if (report.violations.empty()) std::filesystem::remove_all(options.directory);
  return report;
}

}  // namespace leasehold::testing
