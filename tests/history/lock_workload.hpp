#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include "leasehold/redis_link.hpp"
#include "tests/history/fenced_register.hpp"
#include "tests/history/planted_bug.hpp"

namespace leasehold::testing {

/// What the threads of a workload do.
enum class Work {
  everything,  ///< take locks in every way there is
  wait,        ///< wait for one lock that the others use too: a crowd to be killed
  hold,        ///< take and release `locks`, and keep some of them for longer than a failover takes
};
/// The lock that they wait for.
inline constexpr const char* awaited_lock = "plain-0";
/// All that are taken, by their names.
std::vector<std::string> locks_of_workload();
/// No lease is longer.
inline constexpr std::chrono::milliseconds longest_ttl{250};

struct LockWorkload {
  std::string uri;
  std::filesystem::path directory;  ///< of the history
  std::string process;              ///< a name that no other has in this history
  std::uint64_t seed = 0;
  Work work = Work::everything;
  std::vector<std::string> locks;  ///< of Work::hold
  RedisReplicas replicas;
  int clients = 1;
  int threads = 4;  ///< of each client
  PlantedBug bug = PlantedBug::none;
  FencedRegister::Guard guard = FencedRegister::Guard::token;
};

/// Works on a few locks with many threads until told to stop: takes them in every way there is,
/// keeps them for a while, often for too long, changes what they protect, gives them back or lets
/// them go, and writes down what it sees. Throws what no caller of the library should
/// ever see.
void run(const LockWorkload& workload, const std::stop_token& stop);

}  // namespace leasehold::testing
