#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "harness/process.hpp"
#include "tests/support/lock_store.hpp"
#include "tests/support/shared_servers.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {

/// What the threads of lock_storm_program saw, in several processes.
struct StormReport {
  long long rounds = 0;
  long long violations = 0;
  long long most_inside = 0;
  long long longest_wait_ms = 0;
};

/// `what` are the last arguments of the program; "seed" becomes a different number for each.
inline StormReport run_storm(const LockStoreUnderTest& store, const std::string& name,
                             int processes, int threads, int rounds,
                             const std::vector<std::string>& what) {
  std::vector<std::unique_ptr<Process>> running;
  for (int i = 0; i < processes; ++i) {
    std::vector<std::string> argv{LEASEHOLD_TEST_PROGRAMS "/lock_storm_program",
                                  store.uri(),
                                  shared_redis().uri(),
                                  name,
                                  std::to_string(threads),
                                  std::to_string(rounds)};
    for (const std::string& word : what) {
      argv.push_back(word == "seed" ? std::to_string(1'000 * (i + 1)) : word);
    }
    running.push_back(std::make_unique<Process>(std::move(argv)));
  }
  StormReport all;
  for (const auto& process : running) {
    std::istringstream line{process->read_line(std::chrono::seconds{120}).value_or("")};
    StormReport one;
    line >> one.rounds >> one.violations >> one.most_inside >> one.longest_wait_ms;
    EXPECT_EQ(process->wait(patience), ExitStatus{});
    all.rounds += one.rounds;
    all.violations += one.violations;
    all.most_inside = std::max(all.most_inside, one.most_inside);
    all.longest_wait_ms = std::max(all.longest_wait_ms, one.longest_wait_ms);
  }
  for (const std::string& key : shared_redis().keys("inside:" + name + "*")) {
    shared_redis().command({"DEL", key});
  }
  return all;
}

}  // namespace leasehold::testing
