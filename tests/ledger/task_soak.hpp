#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "tests/ledger/ledger_bug.hpp"

namespace leasehold::testing {

struct TaskSoakOptions {
  /// At least. Tasks are added until each fault has happened as often as it should.
  std::int64_t tasks = 200'000;
  /// Tasks are added for at least so long, too.
  std::chrono::milliseconds time{0};
  std::uint64_t seed = 0;
  LedgerBug bug = LedgerBug::none;
  /// How long a handler works.
  std::chrono::milliseconds work{5};
  /// How often each fault happens at least. The others are chosen in this proportion.
  std::map<std::string, int> faults{
      {"kill", 6}, {"freeze", 2}, {"terminate", 6}, {"lock_table", 1}, {"kill_server", 1}};
  /// For what the workers complain about. It is removed if no rule was broken.
  std::filesystem::path directory;
  /// Told now and then how far it is.
  std::function<void(const std::string&)> progress = [](const std::string&) {};
};

struct TaskSoakReport {
  std::int64_t tasks = 0;
  std::map<std::string, int> faults;  ///< by name
  int repeated_enqueues = 0;          ///< after OutcomeUnknown
  std::int64_t refused_effects = 0;   ///< of workers that had lost their lease
  std::int64_t repeated_tasks = 0;    ///< that were leased several times
  std::int64_t crashes = 0;
  std::int64_t most_crashes = 0;  ///< that the faults explain
  std::size_t most_backends = 0;  ///< of one process, of one kind
  /// Which rules were broken, a line each. Empty: none was.
  std::string violations;
};

/// Worker processes do tasks whose effects are counted (effect_ledger.hpp) on a PostgreSQL of their
/// own, while workers, connections and the server fail. In the end every task must have had its
/// effect exactly once, no task may be left, leased or dead, and crashes may have been counted only
/// for tasks that were running. Throws if a worker ends that should not.
TaskSoakReport soak_tasks(const TaskSoakOptions& options);

}  // namespace leasehold::testing
