// A short soak: random work on locks while servers and processes fail, each fault once.
// `./dev soak locks` runs it for as long as you like.
//
// LEASEHOLD_HISTORY_SEED repeats a choice of work and faults, LEASEHOLD_HISTORY_DIR keeps the
// history if a rule was broken.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <random>
#include <string>

#include "harness/temp_dir.hpp"
#include "tests/history/lock_soak.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

SoakOptions short_soak(const TempDir& dir) {
  SoakOptions options;
  const char* seed = std::getenv("LEASEHOLD_HISTORY_SEED");
  options.seed = seed != nullptr ? std::stoull(seed) : std::random_device{}();
  const char* kept = std::getenv("LEASEHOLD_HISTORY_DIR");
  options.directory = kept != nullptr ? kept : dir.path();
  options.crowd = 100;
  std::cout << "LEASEHOLD_HISTORY_SEED=" << options.seed << std::endl;
  return options;
}

TEST(LockSoakTest, EachFaultOnceBreaksNoInvariant) {
  const TempDir dir;
  const SoakReport report = soak_locks(short_soak(dir));
  EXPECT_EQ(report.violations, "");
  EXPECT_GT(report.grants, 0U);
  for (const char* fault :
       {"stall_past_ttl", "full", "failover_killed", "failover_demoted", "old_copy", "crowd"}) {
    EXPECT_EQ(report.faults.count(fault), 1U) << fault;
  }
}

}  // namespace
}  // namespace leasehold::testing
