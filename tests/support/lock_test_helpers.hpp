#pragma once

#include <gtest/gtest.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/null_sink.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "leasehold/locks.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/redis_server.hpp"

// What the tests of locks share. Redis is looked at from outside, through RedisEndpoint.

namespace leasehold::testing {

/// Longer than anything that is awaited takes on a machine that is busy with other things.
inline constexpr std::chrono::seconds patience{30};

/// Writes down what happens to the locks of a client, and lets a test wait for it.
class EventRecorder final : public LockObserver {
 public:
  struct Entry {
    LockEventType type;
    std::string name;
    FencingToken token;
    std::chrono::microseconds elapsed;
    LossReason reason;
  };

  void on_lock_event(const LockEvent& event) noexcept override {
    {
      const std::lock_guard guard(mutex_);
      entries_.push_back(
          {event.type, std::string(event.name), event.token, event.elapsed, event.reason});
    }
    changed_.notify_all();
  }

  /// Whether `type` has happened at least `times` times, to `name` if given.
  [[nodiscard]] bool wait_for(LockEventType type, std::size_t times = 1,
                              std::string_view name = {}) const {
    std::unique_lock guard(mutex_);
    return changed_.wait_for(guard, patience, [&] { return count_now(type, name) >= times; });
  }

  std::size_t count(LockEventType type, std::string_view name = {}) const {
    const std::lock_guard guard(mutex_);
    return count_now(type, name);
  }

  std::vector<Entry> entries() const {
    const std::lock_guard guard(mutex_);
    return entries_;
  }

  /// What happened, in order.
  std::vector<LockEventType> types() const {
    std::vector<LockEventType> types;
    for (const Entry& entry : entries()) types.push_back(entry.type);
    return types;
  }

 private:
  std::size_t count_now(LockEventType type, std::string_view name) const {
    return static_cast<std::size_t>(
        std::count_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
          return entry.type == type && (name.empty() || entry.name == name);
        }));
  }

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<Entry> entries_;  // protected by mutex_
};

/// A door that stays open once it was opened. Copies are the same door: what runs on a thread of
/// the client captures one, for it may still be at the door when the test has gone through.
class Gate {
 public:
  void open() const {
    const std::lock_guard guard(state_->mutex);
    state_->open = true;
    state_->changed.notify_all();
  }

  /// False if it was not opened in time.
  [[nodiscard]] bool wait() const {
    std::unique_lock guard(state_->mutex);
    return state_->changed.wait_for(guard, patience, [this] { return state_->open; });
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool open = false;  // protected by mutex
  };

  std::shared_ptr<State> state_ = std::make_shared<State>();
};

/// Whether the token fires in time.
[[nodiscard]] inline bool fires(const std::stop_token& token) {
  Gate fired;
  const std::stop_callback open{token, [fired] { fired.open(); }};
  return fired.wait();
}

/// What tests provoke is no news.
inline std::shared_ptr<spdlog::logger> silent_logger() {
  return std::make_shared<spdlog::logger>("silent",
                                          std::make_shared<spdlog::sinks::null_sink_mt>());
}

/// For a client that is told apart from the others of this process.
inline LockClientOptions as_new_runner(std::shared_ptr<LockObserver> observer = nullptr) {
  LockClientOptions options;
  options.runner = RunnerId::generate();
  options.observer = std::move(observer);
  options.logger = silent_logger();
  // Not what is tested here: a machine that stands still for a second is no fault of Redis.
  options.redis.command_timeout = std::chrono::seconds{10};
  return options;
}

/// Starts the names of this run: a Redis from the environment may know earlier ones.
inline const std::string& name_prefix() {
  static const std::string prefix = RunnerId::of_this_process().str() + ":";
  return prefix;
}

/// A lock name that no other test uses.
inline std::string name_for_test(std::string_view what = "lock") {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  return name_prefix() + test->name() + ":" + std::string(what);
}

inline std::string key_of(std::string_view lock) { return "lh:{" + std::string(lock) + "}"; }
inline std::string fence_key_of(std::string_view lock) { return key_of(lock) + ":fence"; }

inline bool key_exists(const RedisEndpoint& redis, const std::string& key) {
  return redis.command({"EXISTS", key}).integer == 1;
}

/// Whether Redis knows of as many listening clients: a client that does not listen yet can lose its
/// place for a moment.
[[nodiscard]] inline ::testing::AssertionResult all_listen(const RedisEndpoint& redis,
                                                           std::size_t clients) {
  return eventually(
      [&] {
        return redis.command({"PUBSUB", "CHANNELS", "lh:client:*"}).elements.size() == clients;
      },
      patience);
}

/// Nothing but token counters that expire may remain of locks that nobody holds.
inline void expect_nothing_left(const RedisEndpoint& redis, const std::string& pattern = "*") {
  for (const std::string& key : redis.keys(pattern)) {
    EXPECT_TRUE(key.starts_with("lh:{") && key.ends_with("}:fence")) << "left behind: " << key;
    // One that has expired meanwhile answers -2.
    EXPECT_NE(redis.command({"PTTL", key}).integer, -1) << "never expires: " << key;
  }
}

/// For each test program that uses shared_redis(); see CHECK_NO_KEY_IS_LEFT.
class NoKeyIsLeft final : public ::testing::Environment {
 public:
  void TearDown() override { expect_nothing_left(shared_redis(), "lh:{" + name_prefix() + "*"); }
};

/// Makes the program fail if its tests left a key in the shared Redis.
#define CHECK_NO_KEY_IS_LEFT()                                          \
  [[maybe_unused]] const ::testing::Environment* const no_key_is_left = \
      ::testing::AddGlobalTestEnvironment(new ::leasehold::testing::NoKeyIsLeft)

}  // namespace leasehold::testing
