#include "tests/history/lock_soak.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "leasehold/locks.hpp"
#include "tests/history/history_checker.hpp"
#include "tests/history/history_report.hpp"
#include "tests/history/lock_crew.hpp"
#include "tests/history/lock_place.hpp"
#include "tests/history/lock_workload.hpp"
#include "tests/support/lock_clients.hpp"

namespace leasehold::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

// A longer history needs too much memory to be checked.
constexpr seconds longest_round{60};
constexpr seconds time_between_reports{10};
// Nobody does anything for so many reports: it will not come back.
constexpr int most_idle_reports = 6;
// Leases end within a second, and dead waiters are passed over within two.
constexpr seconds time_to_recover{30};

std::size_t sum(const std::map<std::string, int>& counts) {
  std::size_t total = 0;
  for (const auto& [name, times] : counts) total += static_cast<std::size_t>(times);
  return total;
}

/// One seed, one history.
class Round {
 public:
  Round(const SoakOptions& options, std::uint64_t seed, SoakReport& report)
      : options_(options),
        seed_(seed),
        report_(report),
        directory_(options.directory / ("seed-" + std::to_string(seed))),
        random_(seed) {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }

  void run(milliseconds time) {
    place_ = make_place(options_.store, directory_);
    LockCrew crew{*place_, directory_, random_, "p", options_.bug};
    let_things_happen(crew, time);
    crew.finish();
    see_whether_all_can_be_taken();
    place_.reset();
    check();
  }

 private:
  /// Each fault once in random order, then at random.
  void let_things_happen(LockCrew& crew, milliseconds time) {
    const auto begin = steady_clock::now();
    std::vector<Fault> faults = place_->faults(random_);
    for (auto more : {place_->long_faults(random_), crew.faults(), crew.faults()}) {
      std::move(more.begin(), more.end(), std::back_inserter(faults));
    }
    std::vector<Fault> todo = faults;
    // Once a round: gathering them takes longer than all the rest.
    todo.push_back(crew.crowd_fault(options_.crowd));
    std::shuffle(todo.begin(), todo.end(), random_);
    next_report_ = begin + time_between_reports;
    while (!todo.empty() || steady_clock::now() < begin + time) {
      std::this_thread::sleep_for(between(100, 500, random_));
      Fault fault = faults[random_() % faults.size()];
      if (!todo.empty()) {
        fault = std::move(todo.back());
        todo.pop_back();
      }
      fault.happen();
      ++report_.faults[fault.name];
      report_progress();
      if (idle_reports_ >= most_idle_reports) return;
    }
  }

  void report_progress() {
    if (steady_clock::now() < next_report_) return;
    next_report_ += time_between_reports;
    const std::size_t done = count_operations(directory_);
    idle_reports_ = done == operations_ ? idle_reports_ + 1 : 0;
    operations_ = done;
    std::ostringstream text;
    text << "seed " << seed_ << ": " << report_.operations + done << " operations, "
         << sum(report_.faults) << " faults";
    options_.progress(text.str());
  }

  /// The effects of a fault end with the fault.
  void see_whether_all_can_be_taken() {
    LockClient client{place_->uri(), as_new_runner()};
    for (const std::string& name : locks_of_workload()) {
      try {
        auto lock = client.acquire(name, {.wait = time_to_recover});
        if (lock) {
          lock->release();
        } else {
          place_->record_sight(Op::stuck, name, "busy");
        }
      } catch (const Error&) {
        place_->record_sight(Op::stuck, name, "error");
      }
    }
  }

  void check() {
    const History history = read_history(directory_);
    report_.operations += history.operations();
    report_.grants += history.grants();
    for (const auto& [name, times] : count_errors(history)) report_.errors[name] += times;
    const auto violations = check_history(history);
    if (violations.empty()) {
      std::filesystem::remove_all(directory_);
      return;
    }
    report_.violations = explain(violations, history);
    report_.seed_of_violation = seed_;
    report_.history = directory_;
  }

  const SoakOptions& options_;
  const std::uint64_t seed_;
  SoakReport& report_;
  const std::filesystem::path directory_;
  Random random_;
  std::unique_ptr<LockPlace> place_;
  steady_clock::time_point next_report_;
  std::size_t operations_ = 0;  // at the last report
  int idle_reports_ = 0;
};

}  // namespace

SoakReport soak_locks(const SoakOptions& options) {
  SoakReport report;
  const auto end = steady_clock::now() + options.time;
  std::uint64_t seed = options.seed;
  do {
    const auto left = std::chrono::ceil<milliseconds>(end - steady_clock::now());
    Round{options, seed++, report}.run(std::min<milliseconds>(left, longest_round));
  } while (report.violations.empty() && steady_clock::now() < end);
  return report;
}

}  // namespace leasehold::testing
