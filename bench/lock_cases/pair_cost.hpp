#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cpu_time.hpp"
#include "duel.hpp"

namespace leasehold::bench {

/// Adds up what slices of work cost this process and a server. Steadier than the rate on a machine
/// that others use too.
class CostMeter {
 public:
  explicit CostMeter(pid_t server) : server_(server) {}

  Work run(Crew& crew, std::chrono::milliseconds slice);

  /// Processor time of one operation, in µs.
  double us() const { return (used_.client.total() + used_.server.total()) / operations_ * 1e6; }

  /// What one operation cost: times in µs, and how often a thread went to sleep.
  std::vector<std::pair<std::string, double>> fields(const std::string& of) const;

 private:
  struct Used {
    CpuTime client;
    CpuTime server;
    double sleeps = 0;
  };
  Used now() const;

  const pid_t server_;
  Used used_;
  double operations_ = 0;
};

}  // namespace leasehold::bench
