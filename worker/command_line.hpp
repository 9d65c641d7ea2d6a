#pragma once

#include <string>

#include "common/config_file.hpp"
#include "common/environment.hpp"

namespace leasehold::worker {

/// What the command line asks for.
struct CommandLine {
  enum class Action {
    run,
    once,          ///< run one round for each queue
    check_config,  ///< print the configuration
    print,         ///< print `text`: the help or the version
  };
  Action action = Action::run;
  std::string text;
  std::string config_file;  ///< empty for none
  common::Layer flags;
};

inline constexpr const char* config_variable = "LEASEHOLD_CONFIG";
inline constexpr const char* queues_variable = "LEASEHOLD_QUEUES";

/// Throws InvalidArgument.
CommandLine parse_command_line(int argc, const char* const* argv,
                               const common::Environment& environment);

}  // namespace leasehold::worker
