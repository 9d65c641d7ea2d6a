#pragma once

#include <spdlog/common.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace leasehold::worker {

enum class LogFormat { text, json };

/// Where the HTTP endpoints are.
struct Listen {
  std::string host;
  int port = 0;  ///< 0: any free one

  friend bool operator==(const Listen&, const Listen&) = default;
};

/// One queue: a schema of a database. settings.cpp says what each value means, its default and what
/// is allowed.
struct QueueConfig {
  std::string name;
  std::string database;  ///< may contain a password: never printed
  std::string where;     ///< the same for messages
  std::string schema;
  std::chrono::milliseconds sweep_interval{};
  int max_crashes = 0;
  std::optional<std::chrono::milliseconds> retain_completed;  ///< nothing: for ever
  std::optional<std::chrono::milliseconds> retain_cancelled;
  std::optional<std::chrono::milliseconds> retain_dead;
  std::chrono::milliseconds long_transaction{};
  std::uint64_t count_limit = 0;
  std::size_t max_types = 0;
  std::chrono::milliseconds connect_timeout{};
  std::chrono::milliseconds command_timeout{};
  std::optional<std::chrono::milliseconds> max_round_age;  ///< nothing: see round_age_limit()

  friend bool operator==(const QueueConfig&, const QueueConfig&) = default;

  /// How old the last round may be for the daemon to be ready.
  std::chrono::milliseconds round_age_limit() const {
    return max_round_age.value_or(3 * sweep_interval + command_timeout);
  }
};

struct Config {
  std::optional<Listen> listen;  ///< nothing: no endpoints
  LogFormat log_format = LogFormat::text;
  spdlog::level::level_enum log_level = spdlog::level::info;
  std::chrono::milliseconds shutdown_timeout{};
  std::string redis;  ///< empty: none; may contain a password: never printed
  std::chrono::milliseconds lock_scan_interval{};
  std::vector<QueueConfig> queues;  ///< by name, at least one
};

}  // namespace leasehold::worker
