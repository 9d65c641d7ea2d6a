#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "harness/process.hpp"
#include "tests/ledger/ledger_bug.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {

/// Worker processes, and what can happen to them. Throws if one of them ends by itself. For one
/// thread.
class WorkerCrew {
 public:
  struct Options {
    std::string uri;
    LedgerBug bug = LedgerBug::none;
    std::chrono::milliseconds work{1};  ///< how long a handler works
    std::filesystem::path log;          ///< what the processes complain about
  };
  WorkerCrew(Options options, std::mt19937_64& random);

  static constexpr std::size_t size = 4;

  /// Not one that is frozen. Another one takes its place.
  void kill_one();
  /// Stops one until thaw() is called after `time`. False if half of them are frozen already.
  bool freeze_one(std::chrono::milliseconds time);
  void thaw();
  void thaw_all();

  /// Every one must stop in an orderly way.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  struct Member {
    std::string name;
    std::unique_ptr<Process> process;
    std::optional<Clock::time_point> frozen_until;
  };

  Member start();
  std::size_t frozen() const;
  Member& any_that_runs();
  static void expect_alive(Member& member);
  static void thaw(Member& member);

  const Options options_;
  std::mt19937_64& random_;
  int started_ = 0;
  std::vector<Member> members_;  // in the order of their start
};

}  // namespace leasehold::testing
