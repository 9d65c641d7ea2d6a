#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "common/config.hpp"

namespace leasehold::common {

/// One thing that can be set. The same key names a flag (--round-interval), an environment variable
/// (LEASEHOLD_ROUND_INTERVAL) and a line of the config file (round-interval = 5s).
struct Setting {
  enum class Scope {
    daemon,
    queue,  ///< set for one queue, or outside of any queue as the default of all
  };

  std::string_view key;
  std::string_view fallback;  ///< the default, as a user would write it; empty for none
  std::string_view type;      ///< for --help
  std::string_view help;
  Scope scope = Scope::daemon;
  /// Puts a value into a config. Throws InvalidArgument: `must be …, got "value"`.
  std::function<void(Config&, const std::string&)> set_daemon;
  std::function<void(QueueConfig&, const std::string&)> set_queue;
};

/// All settings, in the order in which they are shown.
std::span<const Setting> settings();

/// Null if there is no such setting.
const Setting* find_setting(std::string_view key);

/// The keys of a scope, separated by commas, for messages.
std::string keys_of(Setting::Scope scope);

/// LEASEHOLD_ROUND_INTERVAL for round-interval.
std::string environment_variable(std::string_view key);

}  // namespace leasehold::common
