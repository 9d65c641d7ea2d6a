// L1, seen from what a lock protects.
#include <gtest/gtest.h>

#include <fstream>

#include "harness/process.hpp"
#include "harness/temp_dir.hpp"
#include "tests/support/lock_store.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

using namespace std::chrono_literals;

class LockCounterTest : public OnEveryLockStore {};
ON_STORES_BETWEEN_PROCESSES(LockCounterTest);

TEST_P(LockCounterTest, NothingIsLostWith64ThreadsIn4Processes) {
  constexpr int processes = 4;
  constexpr int threads = 16;
  constexpr int rounds = 15;
  const TempDir dir;
  const std::string file = (dir.path() / "counter").string();
  std::ofstream{file} << "0 0";
  const std::string name = name_for_test();

  std::vector<std::unique_ptr<Process>> running;
  for (int i = 0; i < processes; ++i) {
    running.push_back(std::make_unique<Process>(
        std::vector<std::string>{LEASEHOLD_TEST_PROGRAMS "/lock_counter_program", store.uri(), name,
                                 file, std::to_string(threads), std::to_string(rounds)}));
  }
  for (const auto& process : running) EXPECT_EQ(process->wait(120s), ExitStatus{});

  int counted = 0;
  std::ifstream{file} >> counted;
  EXPECT_EQ(counted, processes * threads * rounds);
}

}  // namespace
}  // namespace leasehold::testing
