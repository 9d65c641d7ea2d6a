#pragma once

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/process.hpp"

namespace leasehold::bench {

enum class Store { postgres, redis };

/// One of the systems that are compared.
struct System {
  std::string name;
  Store store = Store::postgres;
  std::vector<std::string> command;  ///< that starts its driver
  std::filesystem::path packages;    ///< its node_modules; empty for ours
};

/// Milliseconds of the monotonic clock, which all drivers use.
double monotonic_ms();

/// A process that plays one role for one system (see drivers/common.js). Killed by the destructor.
class Driver {
 public:
  Driver(const System& system, const std::string& role, const nlohmann::json& options);

  /// The next line it says. Throws when none comes in time.
  nlohmann::json read(std::chrono::milliseconds timeout = std::chrono::seconds{60});
  /// The same, or nothing. Throws when the driver has ended.
  std::optional<nlohmann::json> poll(std::chrono::milliseconds timeout);
  /// Everything it says until it ends.
  std::vector<nlohmann::json> read_rest();
  /// Goes on to the next part of its role.
  void go();
  void kill();

 private:
  std::string who_;
  harness::Process process_;
};

}  // namespace leasehold::bench
