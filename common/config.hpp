#pragma once

#include <spdlog/common.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace leasehold::common {

enum class LogFormat { text, json };

/// The address of the HTTP endpoints.
struct Listen {
  std::string host;
  int port = 0;  ///< 0: any free one

  friend bool operator==(const Listen&, const Listen&) = default;
};

/// One queue: a schema of a database. settings.cpp documents each value, its default and its
/// limits.
struct QueueConfig {
  std::string name;
  std::string database;  ///< may contain a password: never print it
  std::string where;     ///< the database for messages, without a password
  std::string schema;
  std::chrono::milliseconds round_interval{};
  int max_crashes = 0;
  std::optional<std::chrono::milliseconds> retain_completed;  ///< empty: for ever
  std::optional<std::chrono::milliseconds> retain_cancelled;
  std::optional<std::chrono::milliseconds> retain_dead;
  std::chrono::milliseconds long_transaction{};
  std::uint64_t count_limit = 0;
  std::size_t max_types = 0;
  std::chrono::milliseconds connect_timeout{};
  std::chrono::milliseconds command_timeout{};
  std::optional<std::chrono::milliseconds> max_round_age;  ///< empty: see round_age_limit()

  friend bool operator==(const QueueConfig&, const QueueConfig&) = default;

  /// The daemon is ready while its last round is not older than this.
  std::chrono::milliseconds round_age_limit() const {
    return max_round_age.value_or(3 * round_interval + command_timeout);
  }
};

/// The configuration of leaseholdd. The command-line tool reads the same file for the addresses of
/// the stores.
struct Config {
  std::optional<Listen> listen;  ///< empty: no endpoints
  LogFormat log_format = LogFormat::text;
  spdlog::level::level_enum log_level = spdlog::level::info;
  std::chrono::milliseconds shutdown_timeout{};
  std::string redis;  ///< empty: none. May contain a password: never print it
  std::chrono::milliseconds lock_scan_interval{};
  std::vector<QueueConfig> queues;  ///< ordered by name, at least one
};

}  // namespace leasehold::common
