// Random work on locks while processes are killed and paused, Redis loses its data or stands still,
// connections break, and files are kept locked; then the history of it all is checked, rule by
// rule.
//
// LEASEHOLD_HISTORY_SEED repeats a choice of work and faults, LEASEHOLD_HISTORY_DIR keeps the
// files.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "harness/temp_dir.hpp"
#include "tests/history/history_checker.hpp"
#include "tests/history/history_report.hpp"
#include "tests/history/lock_crew.hpp"
#include "tests/history/lock_place.hpp"
#include "tests/history/lock_workload.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

std::uint64_t chosen_seed() {
  const char* given = std::getenv("LEASEHOLD_HISTORY_SEED");
  return given != nullptr ? std::stoull(given) : std::random_device{}();
}

/// A directory for one history, kept if somebody asked for it.
class HistoryDir {
 public:
  HistoryDir() : path_(temporary_.path()) {
    if (const char* kept = std::getenv("LEASEHOLD_HISTORY_DIR"); kept != nullptr) {
      const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
      std::string name = std::string(test->test_suite_name()) + "." + test->name();
      std::replace(name.begin(), name.end(), '/', '.');
      path_ = std::filesystem::path(kept) / name;
      std::filesystem::remove_all(path_);
      std::filesystem::create_directories(path_);
    }
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  TempDir temporary_;
  std::filesystem::path path_;
};

/// The same in this process, where ThreadSanitizer sees both ends: each client is a "process".
class Clients {
 public:
  Clients(const LockPlace& place, const std::filesystem::path& history, Random& random,
          const std::string& prefix, PlantedBug bug = PlantedBug::none,
          FencedRegister::Guard guard = FencedRegister::Guard::token) {
    for (int i = 0; i < 3; ++i) {
      LockWorkload workload;
      workload.uri = i == 0 ? place.uri_of_a_bad_way() : place.uri();
      workload.directory = history;
      workload.process = prefix + std::to_string(i);
      workload.seed = random();
      workload.bug = bug;
      workload.guard = guard;
      clients_.push_back(std::async(std::launch::async,
                                    [workload, stop = stop_.get_token()] { run(workload, stop); }));
    }
  }
  ~Clients() { stop_.request_stop(); }

  void finish() {
    stop_.request_stop();
    for (auto& client : clients_) client.get();
  }

 private:
  std::stop_source stop_;
  std::vector<std::future<void>> clients_;
};

/// Each fault once in random order, then at random, until there is enough to check.
void let_things_happen(const std::vector<Fault>& faults, Random& random,
                       const std::filesystem::path& history, std::size_t operations) {
  const auto begin = steady_clock::now();
  const auto deadline = begin + seconds{240};
  std::vector<Fault> todo = faults;
  std::shuffle(todo.begin(), todo.end(), random);
  auto next_count = begin + seconds{5};
  std::size_t done = 0;
  while (steady_clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds{100 + random() % 300});
    if (!todo.empty()) {
      todo.back().happen();
      todo.pop_back();
    } else {
      faults[random() % faults.size()].happen();
    }
    if (steady_clock::now() < next_count) continue;
    done = count_operations(history);
    next_count = steady_clock::now() + seconds{1};
    if (todo.empty() && done >= operations) return;
  }
  FAIL() << "only " << done << " operations in " << (steady_clock::now() - begin) / seconds{1}
         << " s";
}

/// For the log: that a run was as rich as it is meant to be.
void describe(const History& history) {
  std::cout << history.operations() << " operations:";
  for (const auto& [what, times] : count_outcomes(history))
    std::cout << "  " << what << " " << times;
  std::cout << "\nregisters:";
  for (const auto& [lock, accepted] : history.registers) {
    const auto writes = std::count_if(accepted.begin(), accepted.end(),
                                      [](const Event& event) { return event.op == Op::write; });
    std::cout << "  " << lock << " " << writes << " writes";
    EXPECT_GT(writes, 0) << lock;
  }
  std::cout << std::endl;
}

void expect_no_violation(const std::filesystem::path& directory, std::size_t least_operations) {
  const History history = read_history(directory);
  EXPECT_GE(history.operations(), least_operations);
  describe(history);
  const auto violations = check_history(history);
  EXPECT_TRUE(violations.empty()) << explain(violations, history);
}

class LockHistory : public ::testing::Test {
 protected:
  LockHistory() { std::cout << "LEASEHOLD_HISTORY_SEED=" << seed << std::endl; }

  const std::uint64_t seed = chosen_seed();
  Random random{seed};
  HistoryDir dir;
};

class LockHistoryOfEveryStore : public LockHistory,
                                public ::testing::WithParamInterface<StoreKind> {
 protected:
  /// A file takes longer than Redis, and it has fewer ways to fail.
  std::size_t operations(std::size_t in_redis) const {
    return GetParam() == StoreKind::redis ? in_redis : in_redis / 4;
  }

  const std::unique_ptr<LockPlace> place = make_place(GetParam(), dir.path());
};

class LockHistoryOfProcesses : public LockHistoryOfEveryStore {};

TEST_P(LockHistoryOfProcesses, BreaksNoRule) {
  LockCrew crew{*place, dir.path(), random, "p"};
  std::vector<Fault> faults = place->faults(random);
  for (int i = 0; i < 3; ++i) {
    for (Fault& fault : crew.faults()) faults.push_back(std::move(fault));
  }
  let_things_happen(faults, random, dir.path(), operations(20'100));
  crew.finish();
  expect_no_violation(dir.path(), operations(20'000));
}

INSTANTIATE_TEST_SUITE_P(Stores, LockHistoryOfProcesses,
                         ::testing::Values(StoreKind::redis, StoreKind::sqlite_file),
                         [](const auto& test) { return to_name(test.param); });

class LockHistoryOfThreads : public LockHistoryOfEveryStore {};

TEST_P(LockHistoryOfThreads, BreaksNoRule) {
  Clients clients{*place, dir.path(), random, "c"};
  let_things_happen(place->faults(random), random, dir.path(), operations(5'100));
  clients.finish();
  expect_no_violation(dir.path(), operations(5'000));
}

INSTANTIATE_TEST_SUITE_P(Stores, LockHistoryOfThreads,
                         ::testing::Values(StoreKind::redis, StoreKind::sqlite_file,
                                           StoreKind::sqlite_memory),
                         [](const auto& test) { return to_name(test.param); });

// What the checker is worth: it sees bugs that were put there.

/// Works for a while, looks, and goes on until one of the rules is broken.
std::map<Rule, int> work_until_found(const std::set<Rule>& expected, RedisPlace& server,
                                     const std::filesystem::path& directory,
                                     const std::function<void(int)>& work) {
  std::map<Rule, int> found;
  for (int round = 0; round < 20; ++round) {
    work(round);
    const History history = read_history(directory);
    const auto violations = check_history(history);
    found = count(violations);
    for (const Violation& violation : violations) {
      if (!expected.contains(violation.rule)) continue;
      std::cout << "found in round " << round << ": " << violation << std::endl;
      return found;
    }
    server.flush();
  }
  return found;
}

struct Planted {
  PlantedBug bug;
  std::set<Rule> rules;  // what it breaks first depends on chance
  std::function<void(RedisPlace&)> fault = [](RedisPlace& server) { server.flush(); };
};

void stall_past_all_leases(RedisPlace& server) { server.stall(2 * longest_ttl); }
void fail_over(RedisPlace& server) { server.fail_over(milliseconds{100}, RedisPlace::Old::killed); }

class LockHistoryInRedis : public LockHistory {
 protected:
  RedisPlace server{dir.path()};
};

class LockHistoryWithABug : public LockHistoryInRedis,
                            public ::testing::WithParamInterface<Planted> {};

TEST_P(LockHistoryWithABug, IsFound) {
  const auto found = work_until_found(GetParam().rules, server, dir.path(), [&](int round) {
    Clients clients{server, dir.path(), random, "r" + std::to_string(round) + "c", GetParam().bug};
    for (int i = 0; i < 4; ++i) {
      std::this_thread::sleep_for(between(150, 400, random));
      GetParam().fault(server);
    }
    clients.finish();
  });
  const bool as_expected = std::any_of(GetParam().rules.begin(), GetParam().rules.end(),
                                       [&](Rule rule) { return found.contains(rule); });
  EXPECT_TRUE(as_expected) << to_string(GetParam().bug) << " was not found";
}

INSTANTIATE_TEST_SUITE_P(
    Planted, LockHistoryWithABug,
    ::testing::Values(
        Planted{PlantedBug::release_without_compare, {Rule::freed_by_another}},
        Planted{PlantedBug::acquire_without_free, {Rule::two_writers}},
        Planted{PlantedBug::writer_beside_readers, {Rule::reader_beside_writer}},
        Planted{PlantedBug::permits_without_limit, {Rule::too_many_permits}},
        Planted{PlantedBug::tokens_from_one, {Rule::token_order}},
        Planted{PlantedBug::lease_too_short, {Rule::two_writers, Rule::freed_by_another}},
        Planted{PlantedBug::renewal_without_compare, {Rule::freed_by_another, Rule::two_writers}},
        Planted{PlantedBug::renewal_after_the_end, {Rule::lease_revived}, stall_past_all_leases},
        Planted{PlantedBug::tokens_of_older_data, {Rule::token_order}, fail_over}),
    [](const auto& test) { return to_string(test.param.bug); });

TEST_F(LockHistoryInRedis, ARegisterThatTrustsTheLockAloneLosesUpdates) {
  const auto found = work_until_found({Rule::lost_update}, server, dir.path(), [&](int round) {
    Clients clients{server,           dir.path(),
                    random,           "r" + std::to_string(round) + "c",
                    PlantedBug::none, FencedRegister::Guard::none};
    std::this_thread::sleep_for(seconds{1});
    clients.finish();
  });
  EXPECT_TRUE(found.contains(Rule::lost_update));
  EXPECT_FALSE(found.contains(Rule::two_writers)) << "the lock itself was right";
}

TEST_F(LockHistoryInRedis, AReleaseWithoutCompareIsFoundAmongProcesses) {
  const std::set<Rule> rules{Rule::freed_by_another, Rule::two_writers};
  const auto found = work_until_found(rules, server, dir.path(), [&](int round) {
    LockCrew crew{server, dir.path(), random, "r" + std::to_string(round) + "p",
                  PlantedBug::release_without_compare};
    std::this_thread::sleep_for(milliseconds{500});
    crew.kill_one();
    crew.pause_one(between(20, 600, random));
    crew.finish();
  });
  EXPECT_TRUE(found.contains(Rule::freed_by_another) || found.contains(Rule::two_writers));
}

}  // namespace
}  // namespace leasehold::testing
