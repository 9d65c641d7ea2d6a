#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "config.hpp"

namespace leasehold::worker {

/// Everything that can be set. The same key is a flag (--sweep-interval), an environment variable
/// (LEASEHOLD_SWEEP_INTERVAL) and a key of the config file (sweep-interval).
struct Setting {
  enum class Scope {
    daemon,
    queue,  ///< for each queue; outside of a queue's own settings, the default of all
  };

  std::string_view key;
  std::string_view fallback;  ///< the default, as it would be written; empty for none
  std::string_view type;      ///< for --help
  std::string_view help;
  Scope scope = Scope::daemon;
  /// Puts a value into a config. Throws InvalidArgument: `of "value": allowed are …`.
  std::function<void(Config&, const std::string&)> set_daemon;
  std::function<void(QueueConfig&, const std::string&)> set_queue;
};

/// In the order in which they are shown.
std::span<const Setting> settings();

/// Nothing if there is none of this key.
const Setting* find_setting(std::string_view key);

/// For messages: the keys of a scope, separated by commas.
std::string keys_of(Setting::Scope scope);

std::string environment_variable(std::string_view key);

/// Like 500ms, 5s, 2m, 1h, 7d. Throws as Setting::set_daemon.
std::chrono::milliseconds parse_duration(const std::string& text, std::chrono::milliseconds least,
                                         std::chrono::milliseconds most);
/// The shortest way to write it.
std::string format_duration(std::chrono::milliseconds time);

}  // namespace leasehold::worker
