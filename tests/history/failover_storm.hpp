#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "leasehold/redis_link.hpp"
#include "tests/history/planted_bug.hpp"

namespace leasehold::testing {

/// Where the servers of a storm are.
enum class StormTopology {
  sentinel,  ///< a primary, two replicas, three sentinels
  cluster,   ///< three primaries with a replica each; one primary has all the locks of the storm
};

const char* to_string(StormTopology topology);
const char* to_string(RedisReplicas::Needed needed);
/// These throw std::invalid_argument for an unknown name.
StormTopology storm_topology(std::string_view name);
RedisReplicas::Needed replicas_needed(std::string_view name);

struct StormOptions {
  StormTopology topology = StormTopology::sentinel;
  RedisReplicas::Needed replicas = RedisReplicas::Needed::none;
  int failovers = 1;
  /// How long before its end the primary can no longer reach its replicas. What it grants then is
  /// lost, unless it waits for them.
  std::chrono::milliseconds lag{0};
  std::size_t processes = 16;
  std::uint64_t seed = 0;
  PlantedBug bug = PlantedBug::none;
  std::filesystem::path directory;  ///< for the history
  /// Told about each failover.
  std::function<void(const std::string&)> progress = [](const std::string&) {};
};

struct FailoverReport {
  std::size_t grants = 0;
  int overlaps = 0;            ///< two holders that trusted the same lock at the same time
  int tokens_in_disorder = 0;  ///< tokens that were repeated, or smaller than an earlier one
  /// One for each failover: from the kill of the primary until a client that waits has a lock.
  std::vector<std::chrono::milliseconds> outages;
  /// A busy machine can make a server seem down. Such a failover is not among `outages`, but what
  /// it does to locks is counted.
  int unasked_failovers = 0;
  /// Everything that the rules of history_checker.hpp do not allow when the latest data of a
  /// server is lost. Empty: nothing.
  std::string violations;

  std::chrono::milliseconds median_outage() const;
  std::chrono::milliseconds longest_outage() const;
};

/// Lets processes take and release a few locks while the primary is killed with SIGKILL, again and
/// again, and checks the history. Throws if a process ends that should not.
FailoverReport run_failover_storm(const StormOptions& options);

/// A row of the table in docs/topologies.md.
std::string to_row(const StormOptions& options, const FailoverReport& report);

}  // namespace leasehold::testing
