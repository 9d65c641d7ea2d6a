#include "common/settings.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "common/values.hpp"

namespace leasehold::common {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

std::optional<Listen> parse_listen(const std::string& text) {
  if (text == "off") return std::nullopt;
  const auto colon = text.rfind(':');
  const auto port =
      colon == std::string::npos ? std::nullopt : parse_digits(text.substr(colon + 1));
  std::string host = text.substr(0, std::min(colon, text.size()));
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (!port || *port > 65535 || host.empty() || bracketed != (host.find(':') != host.npos)) {
    refuse(text, "HOST:PORT, [IPV6]:PORT (port 0 for any free one) or off");
  }
  return Listen{host, static_cast<int>(*port)};
}

/// The library checks it as well, but its message would show a URI that was put here by mistake,
/// with its password.
std::string parse_schema(const std::string& text) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const bool valid =
      !text.empty() && text.size() <= 63 && is_letter(text.front()) &&
      std::ranges::all_of(text, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
  if (!valid) refuse(text, "a letter or _, then letters, digits or _, 63 in all at most");
  return text;
}

LogFormat parse_log_format(const std::string& text) {
  if (text == "text") return LogFormat::text;
  if (text == "json") return LogFormat::json;
  refuse(text, "text or json");
}

spdlog::level::level_enum parse_log_level(const std::string& text) {
  if (text == "debug") return spdlog::level::debug;
  if (text == "info") return spdlog::level::info;
  if (text == "warn") return spdlog::level::warn;
  if (text == "error") return spdlog::level::err;
  refuse(text, "debug, info, warn or error");
}

// Setters. Each names the member that receives the value, and the limits.

template <typename Class>
auto duration(milliseconds Class::*member, milliseconds least, milliseconds most) {
  return [=](Class& config, const std::string& text) {
    config.*member = parse_duration(text, least, most);
  };
}

/// A duration, or a word that leaves the member empty.
auto duration_or(std::string_view word, std::optional<milliseconds> QueueConfig::*member,
                 milliseconds least, milliseconds most) {
  return [=](QueueConfig& config, const std::string& text) {
    if (text == word) {
      config.*member = std::nullopt;
    } else {
      config.*member = parse_duration(text, least, most, word);
    }
  };
}

template <typename Number>
auto number(Number QueueConfig::*member, std::int64_t least, std::int64_t most) {
  return [=](QueueConfig& config, const std::string& text) {
    config.*member = static_cast<Number>(parse_number(text, least, most));
  };
}

template <typename Class, typename Value, typename Parse>
auto parsed(Value Class::*member, Parse parse) {
  return [=](Class& config, const std::string& text) { config.*member = parse(text); };
}

template <typename Class>
auto text(std::string Class::*member) {
  return [=](Class& config, const std::string& value) { config.*member = value; };
}

using Texts = std::array<std::string_view, 4>;  // key, default, type, help

Setting of_daemon(const Texts& texts, std::function<void(Config&, const std::string&)> set) {
  const auto& [key, fallback, type, help] = texts;
  return {key, fallback, type, help, Setting::Scope::daemon, std::move(set), {}};
}

Setting of_queue(const Texts& texts, std::function<void(QueueConfig&, const std::string&)> set) {
  const auto& [key, fallback, type, help] = texts;
  return {key, fallback, type, help, Setting::Scope::queue, {}, std::move(set)};
}

std::vector<Setting> make_settings() {
  return {
      of_daemon({"listen", "127.0.0.1:9464", "HOST:PORT",
                 "Address of /metrics, /healthz, /readyz and /status; port 0 for any free one, off "
                 "for none"},
                parsed(&Config::listen, parse_listen)),
      of_daemon({"log-format", "text", "FORMAT", "text, or json for one object a line"},
                parsed(&Config::log_format, parse_log_format)),
      of_daemon(
          {"log-level", "info", "LEVEL",
           "Lowest level that is logged: debug, info, warn or error; debug adds rounds, settings "
           "and HTTP requests"},
          parsed(&Config::log_level, parse_log_level)),
      of_daemon({"shutdown-timeout", "10s", "TIME",
                 "How long the rounds under way may take to end after SIGTERM"},
                duration(&Config::shutdown_timeout, 0ms, 1h)),
      of_daemon({"redis", "", "URI", "A Redis whose held and stale locks are counted"},
                text(&Config::redis)),
      of_daemon({"lock-scan-interval", "1m", "TIME", "Time between two counts of the locks"},
                duration(&Config::lock_scan_interval, 100ms, 24h)),

      of_queue({"database", "", "URI",
                "The PostgreSQL database of the tasks, or a SQLite file: sqlite:PATH"},
               text(&QueueConfig::database)),
      of_queue({"schema", "leasehold", "NAME", "Schema of the tables"},
               parsed(&QueueConfig::schema, parse_schema)),
      of_queue({"round-interval", "5s", "TIME",
                "Longest time from the start of one round to the next; each is up to a quarter "
                "shorter, at random"},
               duration(&QueueConfig::round_interval, 50ms, 1h)),
      of_queue({"max-crashes", "3", "NUMBER",
                "A task is dead once it has crashed its worker this many times; mostly workers "
                "recover it first, and their own limit decides"},
               number(&QueueConfig::max_crashes, 1, 1'000'000)),
      of_queue({"retain-completed", "1d", "TIME", "How long completed tasks are kept, or forever"},
               duration_or("forever", &QueueConfig::retain_completed, 0ms, ten_years)),
      of_queue({"retain-cancelled", "1d", "TIME", "How long cancelled tasks are kept, or forever"},
               duration_or("forever", &QueueConfig::retain_cancelled, 0ms, ten_years)),
      of_queue({"retain-dead", "forever", "TIME", "How long dead tasks are kept, or forever"},
               duration_or("forever", &QueueConfig::retain_dead, 0ms, ten_years)),
      of_queue({"long-transaction", "5m", "TIME",
                "Warn about a transaction that has held back vacuum for this long"},
               duration(&QueueConfig::long_transaction, 1ms, ten_years)),
      of_queue({"count-limit", "10000", "NUMBER",
                "Tasks of one type and state are counted up to this number; a higher limit costs "
                "more"},
               number(&QueueConfig::count_limit, 1, 1'000'000'000)),
      of_queue({"max-types", "50", "NUMBER",
                "How many types of tasks are shown by name; the rest are summed up as \"other\""},
               number(&QueueConfig::max_types, 0, 10'000)),
      of_queue(
          {"connect-timeout", "5s", "TIME", "How long to wait for a connection, in whole seconds"},
          duration(&QueueConfig::connect_timeout, 2s, 1h)),
      of_queue(
          {"command-timeout", "10s", "TIME", "How long to wait for the answer to one statement"},
          duration(&QueueConfig::command_timeout, 100ms, 1h)),
      of_queue({"max-round-age", "auto", "TIME",
                "/readyz fails when the last round is older; auto is 3 times the round-interval "
                "plus the command-timeout"},
               duration_or("auto", &QueueConfig::max_round_age, 100ms, ten_years)),
  };
}

}  // namespace

std::span<const Setting> settings() {
  static const std::vector<Setting> all = make_settings();
  return all;
}

const Setting* find_setting(std::string_view key) {
  const auto all = settings();
  const auto found = std::ranges::find(all, key, &Setting::key);
  return found == all.end() ? nullptr : &*found;
}

std::string keys_of(Setting::Scope scope) {
  std::string keys;
  for (const Setting& setting : settings()) {
    if (setting.scope != scope) continue;
    if (!keys.empty()) keys += ", ";
    keys += setting.key;
  }
  return keys;
}

std::string environment_variable(std::string_view key) {
  std::string name = "LEASEHOLD_";
  for (const char c : key) name += c == '-' ? '_' : static_cast<char>(c - 'a' + 'A');
  return name;
}

}  // namespace leasehold::common
