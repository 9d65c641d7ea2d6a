#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "tests/history/planted_bug.hpp"
#include "tests/support/store_kind.hpp"

namespace leasehold::testing {

struct SoakOptions {
  StoreKind store = StoreKind::redis;
  /// At least; every fault happens once at least, too.
  std::chrono::milliseconds time{0};
  std::uint64_t seed = 0;
  /// How many waiters are killed at once.
  std::size_t crowd = 1'000;
  PlantedBug bug = PlantedBug::none;
  /// For the histories. Those that break no rule are removed.
  std::filesystem::path directory;
  /// Told now and then how far it is.
  std::function<void(const std::string&)> progress = [](const std::string&) {};
};

struct SoakReport {
  std::size_t operations = 0;
  std::size_t grants = 0;
  std::map<std::string, int> faults;  ///< by name
  std::map<std::string, int> errors;  ///< by what failed and why
  /// Which rules were broken, and by which part of the history. Empty: none was.
  std::string violations;
  std::uint64_t seed_of_violation = 0;
  std::filesystem::path history;  ///< where it is, if one was broken
};

/// Lets processes work on locks while servers and processes fail, in rounds of a minute, and checks
/// the history of each round. A round has servers and a seed of its own: that of the first is
/// `seed`, the next one has `seed` + 1, and so on. Ends with the first round that breaks a rule.
/// Throws if a process ends that should not.
SoakReport soak_locks(const SoakOptions& options);

}  // namespace leasehold::testing
