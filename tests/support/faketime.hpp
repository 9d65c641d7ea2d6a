#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harness/process.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {

/// How to start a program whose time of day is off by so much ("+3600s"); its monotonic clock is
/// right, as after a jump. faketime refuses to start if a process of the same number that was
/// killed left its semaphore: so that is removed first.
inline ProcessOptions with_clock_off(const std::string& offset,
                                     const std::vector<std::string>& program) {
  std::vector<std::string> argv{
      "sh", "-c",
      "rm -f /dev/shm/sem.faketime_sem_$$ /dev/shm/faketime_shm_$$; exec faketime -f \"$@\"", "sh",
      offset};
  argv.insert(argv.end(), program.begin(), program.end());
  return {.argv = std::move(argv),
          .env = {{"FAKETIME_DONT_FAKE_MONOTONIC", "1"}, {"DONT_FAKE_MONOTONIC", "1"}}};
}

/// What such a program says, without the end of its last line.
inline std::string said_with_clock_off(const std::string& offset,
                                       const std::vector<std::string>& program) {
  auto done = run(with_clock_off(offset, program));
  EXPECT_TRUE(done.status.success()) << done.output;
  while (done.output.ends_with('\n')) done.output.pop_back();
  return done.output;
}

}  // namespace leasehold::testing
