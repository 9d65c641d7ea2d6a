#pragma once

#include <gtest/gtest.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/null_sink.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "leasehold/locks.hpp"
#include "tests/support/test_namespace.hpp"

// Clients of locks that tests tell apart, and names of locks that no other test uses.

namespace leasehold::testing {

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

}  // namespace leasehold::testing
