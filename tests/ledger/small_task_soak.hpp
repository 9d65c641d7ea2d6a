#pragma once

#include <cstdlib>
#include <iostream>
#include <random>
#include <string>

#include "harness/temp_dir.hpp"
#include "tests/ledger/task_soak.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {

/// A few thousand tasks. LEASEHOLD_LEDGER_SEED repeats a choice of faults.
inline TaskSoakOptions small_task_soak(const TempDir& dir) {
  TaskSoakOptions options;
  options.tasks = 2'000;
  const char* seed = std::getenv("LEASEHOLD_LEDGER_SEED");
  options.seed = seed != nullptr ? std::stoull(seed) : std::random_device{}();
  options.directory = dir.path() / "soak";
  std::cout << "LEASEHOLD_LEDGER_SEED=" << options.seed << std::endl;
  return options;
}

}  // namespace leasehold::testing
