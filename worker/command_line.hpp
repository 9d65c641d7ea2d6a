#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config.hpp"
#include "config_file.hpp"
#include "environment.hpp"

namespace leasehold::worker {

/// What the command line asks for.
struct CommandLine {
  enum class Action {
    run,
    once,          ///< one round of each queue
    check_config,  ///< say what the configuration is
    print,         ///< only `text`: the help or the version
  };
  Action action = Action::run;
  std::string text;
  std::string config_file;  ///< empty for none
  Layer flags;
};

/// Throws InvalidArgument.
CommandLine parse_command_line(int argc, const char* const* argv, const Environment& environment);

/// A configuration, and how it came about.
struct LoadedConfig {
  Config config;
  std::string description;            ///< as a config file, with the source of each value
  std::vector<std::string> warnings;  ///< what is odd, but no error
};

/// Brings together what was said. Flags go before the environment, that before the config file,
/// that before the defaults; but what is said of one queue goes before what is said of all.
/// Reads the file each time. Throws InvalidArgument.
LoadedConfig load_config(const CommandLine& command_line, const Environment& environment);

}  // namespace leasehold::worker
