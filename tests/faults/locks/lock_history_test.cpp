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
#include <sstream>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "harness/process.hpp"
#include "harness/redis_server.hpp"
#include "harness/temp_dir.hpp"
#include "tests/history/history_checker.hpp"
#include "tests/history/lock_workload.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/fault_proxy.hpp"
#include "tests/support/lock_store.hpp"
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

using Fault = std::function<void()>;
using Random = std::mt19937_64;

milliseconds between(int least, int most, Random& random) {
  return milliseconds{std::uniform_int_distribution<int>{least, most}(random)};
}

/// Where the locks are, and what can happen to it.
class Place {
 public:
  explicit Place(const std::filesystem::path& history) : recorder_(history, "test") {}
  virtual ~Place() = default;

  virtual std::string uri() const = 0;
  virtual std::string uri_of_a_bad_way() const { return uri(); }
  virtual std::vector<Fault> faults(Random& random) = 0;
  const Recorder& recorder() const { return recorder_; }

 private:
  Recorder recorder_;
};

/// Redis, and a bad way to it.
class Server : public Place {
 public:
  using Place::Place;

  std::string uri() const override { return redis_.uri(); }
  std::string uri_of_a_bad_way() const override { return redis_.uri_through(proxy_.port()); }
  std::vector<Fault> faults(Random& random) override {
    return {[this] { flush(); },
            [this] {
              redis_.command({"SCRIPT", "FLUSH"});
            },
            [this] { lose_data([this] { redis_.restart(Data::lost); }); },
            [this] { proxy_.cut(); },
            [this, &random] { blackhole(between(20, 400, random)); },
            [this, &random] { pause(between(20, 300, random)); }};
  }

  void flush() {
    lose_data([this] { redis_.command({"FLUSHALL"}); });
  }

 private:
  void blackhole(milliseconds time) {
    proxy_.blackhole(true);
    std::this_thread::sleep_for(time);
    proxy_.blackhole(false);
  }
  void pause(milliseconds time) {
    redis_.pause();
    std::this_thread::sleep_for(time);
    redis_.resume();
  }
  void lose_data(const std::function<void()>& lose) {
    Event event;
    event.op = Op::data_loss;
    event.grant = event.lock = "-";
    for (const Phase phase : {Phase::invoke, Phase::ok}) {
      if (phase == Phase::ok) lose();
      event.phase = phase;
      event.time = history_now();
      recorder().record(event);
    }
  }

  RedisServer redis_;
  FaultProxy proxy_{redis_.port()};
};

/// SQLite, in a file or in the memory of this process.
class Embedded : public Place {
 public:
  Embedded(StoreKind kind, const std::filesystem::path& history)
      : Place(history), uri_(*sqlite::parse_sqlite_uri(uri_in(kind))) {}

  std::string uri() const override { return uri_.display(); }
  std::vector<Fault> faults(Random& random) override {
    if (uri_.kind != sqlite::SqliteUri::Kind::file) return {[] {}};  // nobody gets at it
    return {[this, &random] { keep_locked(between(20, 400, random)); }, [this] { checkpoint(); }};
  }

 private:
  std::string uri_in(StoreKind kind) const {
    return kind == StoreKind::sqlite_file ? "sqlite:" + (dir_.path() / "locks.db").string()
                                          : "sqlite::memory:" + random_hex(8);
  }

  /// For longer than some calls are patient.
  void keep_locked(milliseconds time) const {
    sqlite::Connection connection{uri_};
    const auto begun = [&] {
      try {
        connection.begin_immediate();
        return true;
      } catch (const sqlite::Busy&) {
        return false;
      }
    };
    ASSERT_TRUE(eventually(begun, seconds{60}));
    std::this_thread::sleep_for(time);
    connection.rollback();
  }

  void checkpoint() const {
    try {
      sqlite::Connection{uri_}.pragma("PRAGMA wal_checkpoint(TRUNCATE)");
    } catch (const sqlite::Busy&) {  // another time
    }
  }

  const TempDir dir_;
  const sqlite::SqliteUri uri_;
};

std::unique_ptr<Place> make_place(StoreKind kind, const std::filesystem::path& history) {
  if (kind == StoreKind::redis) return std::make_unique<Server>(history);
  return std::make_unique<Embedded>(kind, history);
}

/// Processes that work, and what can happen to them.
class Crew {
 public:
  Crew(const Place& place, std::filesystem::path history, Random& random, const std::string& prefix,
       PlantedBug bug = PlantedBug::none)
      : place_(place), history_(std::move(history)), random_(random), prefix_(prefix), bug_(bug) {
    for (std::size_t i = 0; i < size; ++i) members_.push_back(start(i));
  }

  void kill_one() {
    const std::size_t i = random_() % size;
    EXPECT_TRUE(members_[i].process->running()) << members_[i].name << " ended by itself";
    members_[i].process->kill(SIGKILL);
    members_[i].process->wait(seconds{10});
    Event event;
    event.time = history_now();
    event.process = members_[i].name;
    event.grant = event.lock = "-";
    event.op = Op::kill;
    place_.recorder().record(event);
    members_[i] = start(i);
  }

  void pause_one(milliseconds time) {
    Process& process = *members_[random_() % size].process;
    process.pause();
    std::this_thread::sleep_for(time);
    process.resume();
  }

  /// Every one must come to an end by itself, and without a complaint of a sanitizer.
  void finish() {
    for (const auto& member : members_) member.process->close_input();
    for (const auto& member : members_) {
      const auto status = member.process->wait(seconds{60});
      ASSERT_TRUE(status.has_value()) << member.name << " hangs";
      EXPECT_TRUE(status->success())
          << member.name << ": exit code " << status->code << ", signal " << status->signal;
    }
  }

 private:
  struct Member {
    std::string name;
    std::unique_ptr<Process> process;
  };

  Member start(std::size_t i) {
    const std::string name = prefix_ + std::to_string(++started_);
    // Some have a bad way to Redis, the others see what that leads to.
    const std::string uri = i % 2 == 0 ? place_.uri_of_a_bad_way() : place_.uri();
    return {name, std::make_unique<Process>(std::vector<std::string>{
                      LEASEHOLD_TEST_PROGRAMS "/lock_history_program", uri, history_.string(), name,
                      std::to_string(random_()), "5", to_string(bug_)})};
  }

  static constexpr std::size_t size = 4;

  const Place& place_;
  const std::filesystem::path history_;
  Random& random_;
  const std::string prefix_;
  const PlantedBug bug_;
  int started_ = 0;
  std::vector<Member> members_;
};

/// The same in this process, where ThreadSanitizer sees both ends: each client is a "process".
class Clients {
 public:
  Clients(const Place& place, const std::filesystem::path& history, Random& random,
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
      todo.back()();
      todo.pop_back();
    } else {
      faults[random() % faults.size()]();
    }
    if (steady_clock::now() < next_count) continue;
    done = count_operations(history);
    next_count = steady_clock::now() + seconds{1};
    if (todo.empty() && done >= operations) return;
  }
  FAIL() << "only " << done << " operations in " << (steady_clock::now() - begin) / seconds{1}
         << " s";
}

std::map<Rule, int> count(const std::vector<Violation>& violations) {
  std::map<Rule, int> counted;
  for (const Violation& violation : violations) ++counted[violation.rule];
  return counted;
}

/// The first few, with everything that happened to both grants.
std::string explain(const std::vector<Violation>& violations, const History& history) {
  std::ostringstream text;
  for (const auto& [rule, times] : count(violations)) {
    text << to_string(rule) << ": " << times << "\n";
  }
  for (std::size_t i = 0; i < std::min<std::size_t>(violations.size(), 5); ++i) {
    const Violation& violation = violations[i];
    text << violation << "\n    all of both:\n";
    for (const Event& event : history.events) {
      if (event.op == Op::data_loss || event.grant == violation.first.grant ||
          event.grant == violation.second.grant) {
        text << "    " << event.place << "  " << to_line(event) << "\n";
      }
    }
  }
  return text.str();
}

/// For the log: that a run was as rich as it is meant to be.
void describe(const History& history) {
  std::map<std::string, int> counted;
  for (const Event& event : history.events) {
    ++counted[std::string(to_string(event.op)) + " " + to_string(event.phase)];
  }
  std::cout << history.operations() << " operations:";
  for (const auto& [what, times] : counted) std::cout << "  " << what << " " << times;
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

  const std::unique_ptr<Place> place = make_place(GetParam(), dir.path());
};

class LockHistoryOfProcesses : public LockHistoryOfEveryStore {};

TEST_P(LockHistoryOfProcesses, BreaksNoRule) {
  Crew crew{*place, dir.path(), random, "p"};
  std::vector<Fault> faults = place->faults(random);
  for (int i = 0; i < 3; ++i) {
    faults.emplace_back([&] { crew.kill_one(); });
    faults.emplace_back([&] { crew.pause_one(between(20, 600, random)); });
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
std::map<Rule, int> work_until_found(const std::set<Rule>& expected, Server& server,
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
};

class LockHistoryInRedis : public LockHistory {
 protected:
  Server server{dir.path()};
};

class LockHistoryWithABug : public LockHistoryInRedis,
                            public ::testing::WithParamInterface<Planted> {};

TEST_P(LockHistoryWithABug, IsFound) {
  const auto found = work_until_found(GetParam().rules, server, dir.path(), [&](int round) {
    Clients clients{server, dir.path(), random, "r" + std::to_string(round) + "c", GetParam().bug};
    for (int i = 0; i < 4; ++i) {
      std::this_thread::sleep_for(between(150, 400, random));
      server.flush();
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
        Planted{PlantedBug::renewal_without_compare, {Rule::freed_by_another, Rule::two_writers}}),
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
    Crew crew{server, dir.path(), random, "r" + std::to_string(round) + "p",
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
