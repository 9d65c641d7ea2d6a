#pragma once

#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>

#include "tests/history/fenced_register.hpp"
#include "tests/history/planted_bug.hpp"

namespace leasehold::testing {

struct LockWorkload {
  std::string uri;
  std::filesystem::path directory;  ///< of the history
  std::string process;              ///< a name that no other has in this history
  std::uint64_t seed = 0;
  int threads = 4;
  PlantedBug bug = PlantedBug::none;
  FencedRegister::Guard guard = FencedRegister::Guard::token;
};

/// Works on a few locks with one client and many threads until told to stop: takes them in every
/// way there is, keeps them for a while, often for too long, changes what they protect, gives them
/// back or lets them go, and writes down what it sees. Throws what no caller of the library should
/// ever see.
void run(const LockWorkload& workload, const std::stop_token& stop);

}  // namespace leasehold::testing
