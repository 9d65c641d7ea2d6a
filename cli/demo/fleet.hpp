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

/// What happened to the workers so far.
struct FleetNews {
  std::uint64_t executions = 0;
  std::uint64_t kills = 0;
  std::uint64_t freezes = 0;
  std::uint64_t refused_by_version = 0;  ///< of a task
  std::uint64_t refused_by_token = 0;    ///< of a lock
  std::uint64_t running = 0;             ///< handlers, now
  std::uint64_t unexpected_ends = 0;
  std::string last;  ///< the latest misfortune, for people

  std::uint64_t stale_writes_refused() const { return refused_by_version + refused_by_token; }
};

/// Worker processes, and their bad luck.
class Fleet {
 public:
  Fleet(const Stores& stores, const DemoWorkerOptions& options, std::size_t workers,
        std::uint64_t seed);

  /// Hears what the workers say, wakes those that were frozen long enough, replaces the dead.
  void look_after();
  /// Kills a worker (SIGKILL) or freezes one (SIGSTOP), by turns: for longer than its locks last,
  /// but not its leases, or for longer than both. So each guard is put to the test several times.
  void strike();
  /// No worker is frozen after this.
  void wake_all();
  /// Ends all workers properly.
  void stop();

  const FleetNews& news() const { return news_; }

 private:
  using SteadyTime = std::chrono::steady_clock::time_point;
  struct Member {
    std::unique_ptr<harness::Process> process;
    std::uint64_t in_hand = 0;                ///< handlers that run
    std::chrono::milliseconds freeze_for{0};  ///< as soon as it can be
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
