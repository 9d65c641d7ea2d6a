#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {

/// What a run of leasehold has left.
struct CliResult {
  int code = 0;  ///< -1 if a signal ended it
  std::string out;
  std::string err;

  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

/// For messages of failed assertions.
std::ostream& operator<<(std::ostream& out, const CliResult& result);

/// Runs leasehold to its end, its output in pipes. `input` is what it reads. LEASEHOLD_… variables
/// of ours are not passed on.
CliResult run_cli(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                  const std::string& input = {},
                  const std::map<std::string, std::string>& env = {});

}  // namespace leasehold::testing
