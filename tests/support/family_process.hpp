#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <sstream>
#include <string>

#include "harness/process.hpp"
#include "leasehold/locks.hpp"
#include "tests/support/lock_store.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {

/// A process that holds, or waits for, a lock of the family: lock_family_program.
class FamilyProcess {
 public:
  /// `kind`: exclusive, read, write, or a number of permits.
  FamilyProcess(const LockStoreUnderTest& store, const std::string& name,
                std::chrono::milliseconds ttl, const std::string& kind)
      : process_({LEASEHOLD_TEST_PROGRAMS "/lock_family_program", store.uri(), name,
                  std::to_string(ttl.count()), kind}) {}

  /// Lets it end properly: what it holds is released.
  ~FamilyProcess() {
    process_.close_input();
    process_.wait(patience);
  }
  FamilyProcess(const FamilyProcess&) = delete;
  FamilyProcess& operator=(const FamilyProcess&) = delete;

  /// Waits until it has the lock.
  FencingToken held() {
    std::istringstream line{process_.read_line(patience).value_or("")};
    std::string word;
    FencingToken token;
    line >> word >> token.value;
    EXPECT_EQ(word, "held");
    return token;
  }

  /// The answer to an order.
  std::string ask(const std::string& order) {
    EXPECT_TRUE(process_.write_line(order));
    return answer();
  }
  void order(const std::string& order) { EXPECT_TRUE(process_.write_line(order)); }
  std::string answer() { return process_.read_line(patience).value_or("no answer"); }

  void kill() {
    process_.kill(SIGKILL);
    ASSERT_TRUE(process_.wait(patience));
  }
  pid_t pid() const { return process_.pid(); }

 private:
  Process process_;
};

}  // namespace leasehold::testing
