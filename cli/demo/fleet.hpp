#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "demo_worker.hpp"
#include "harness/process.hpp"

namespace leasehold::cli {

/// What has happened to the workers so far.
struct FleetNews {
  std::uint64_t executions = 0;
  std::uint64_t kills = 0;
  std::uint64_t freezes = 0;
  std::uint64_t refused_by_version = 0;  ///< the task's version
  std::uint64_t refused_by_token = 0;    ///< the lock's fencing token
  std::uint64_t running = 0;             ///< its handlers that run now
  std::uint64_t unexpected_ends = 0;
  std::string last;  ///< what happened last, for people

  std::uint64_t stale_writes_refused() const { return refused_by_version + refused_by_token; }
};

/// The worker processes, and what the demo does to them.
class Fleet {
 public:
  Fleet(const Stores& stores, const DemoWorkerOptions& options, std::size_t workers,
        std::uint64_t seed);

  /// Reads what the workers report, resumes those that were frozen long enough, and replaces those
  /// that have ended.
  void look_after();
  /// Kills a worker (SIGKILL) or freezes one (SIGSTOP), in turns. It is frozen for longer than its
  /// locks last but not its leases, or for longer than both, so that each guard is tested.
  void strike();
  /// Resumes all workers that are frozen.
  void wake_all();
  /// Ends all workers in an orderly way.
  void stop();

  const FleetNews& news() const { return news_; }

 private:
  using SteadyTime = std::chrono::steady_clock::time_point;
  struct Member {
    std::unique_ptr<harness::Process> process;
    std::uint64_t in_hand = 0;                ///< its handlers that run
    std::chrono::milliseconds freeze_for{0};  ///< pending: as soon as it does not write
    SteadyTime frozen_until{};
    bool frozen = false;
  };

  void start(Member& member) const;
  void hear(Member& member);
  void replace(std::size_t index);
  void try_to_freeze(Member& member);

  const harness::ProcessOptions how_to_start_;
  std::minstd_rand random_;
  std::vector<Member> members_;
  std::uint64_t strikes_ = 0;
  FleetNews news_;
};

}  // namespace leasehold::cli
