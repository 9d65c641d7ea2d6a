#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "harness/process.hpp"
#include "tests/history/lock_place.hpp"
#include "tests/history/planted_bug.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {

/// Processes that work on locks, and what can happen to them. Throws if one of them ends by itself.
/// For one thread.
class LockCrew {
 public:
  /// `prefix` starts the names of the processes. It must differ from that of others of the same
  /// history.
  LockCrew(const LockPlace& place, std::filesystem::path history, Random& random,
           std::string prefix, PlantedBug bug = PlantedBug::none);

  void kill_one();
  void pause_one(std::chrono::milliseconds time);
  /// Gathers so many waiters in processes of their own and kills them all at once. They share few
  /// processes, because a thousand are too many for a small machine.
  void kill_a_crowd(std::size_t waiters);

  /// One of them is killed, one of them is paused.
  std::vector<Fault> faults();
  Fault crowd_fault(std::size_t waiters);

  /// Every one must come to an end by itself, and without a complaint of a sanitizer.
  void finish();

 private:
  struct Member {
    std::string name;
    std::unique_ptr<Process> process;
  };

  Member start(std::size_t i);
  void kill(Member& member) const;

  static constexpr std::size_t size = 4;

  const LockPlace& place_;
  const std::filesystem::path history_;
  Random& random_;
  const std::string prefix_;
  const PlantedBug bug_;
  int started_ = 0;
  std::vector<Member> members_;
};

}  // namespace leasehold::testing
