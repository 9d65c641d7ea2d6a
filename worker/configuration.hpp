#pragma once

#include <string>
#include <vector>

#include "command_line.hpp"
#include "common/config.hpp"
#include "common/environment.hpp"

namespace leasehold::worker {

/// A configuration, and how it came about.
struct LoadedConfig {
  common::Config config;
  std::string description;                     ///< as a config file, with the source of each value
  std::vector<std::string> unknown_variables;  ///< of the environment; odd, but not an error
};

/// Combines all sources. Flags take precedence over the environment, the environment over the
/// config file, and the file over the defaults; but the settings of one queue take precedence over
/// those for all queues. Reads the file each time. Throws InvalidArgument.
LoadedConfig load_config(const CommandLine& command_line, const common::Environment& environment);

}  // namespace leasehold::worker
