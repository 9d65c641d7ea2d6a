#include "settings.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "leasehold/errors.hpp"
#include "secrets.hpp"

namespace leasehold::worker {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr milliseconds ten_years = 24h * 3653;

struct Unit {
  std::string_view name;
  milliseconds length;
};
constexpr std::array units{Unit{"ms", 1ms}, Unit{"s", 1s}, Unit{"m", 1min}, Unit{"h", 1h},
                           Unit{"d", 24h}};

[[noreturn]] void refuse(const std::string& text, const std::string& allowed) {
  throw InvalidArgument("of " + shown(text) + ": allowed " + allowed);
}

/// The whole text as a number of digits, or nothing.
std::optional<std::int64_t> parse_digits(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || text.starts_with('-')) return {};
  return number;
}

std::int64_t parse_number(const std::string& text, std::int64_t least, std::int64_t most) {
  const auto number = parse_digits(text);
  if (!number || *number < least || *number > most) {
    refuse(text, "are " + std::to_string(least) + " to " + std::to_string(most));
  }
  return *number;
}

std::optional<Listen> parse_listen(const std::string& text) {
  if (text == "off") return std::nullopt;
  const auto colon = text.rfind(':');
  const auto port =
      colon == std::string::npos ? std::nullopt : parse_digits(text.substr(colon + 1));
  std::string host = text.substr(0, std::min(colon, text.size()));
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (!port || *port > 65535 || host.empty() || bracketed != (host.find(':') != host.npos)) {
    refuse(text, "are HOST:PORT, [IPV6]:PORT, with port 0 for any free one, and off");
  }
  return Listen{host, static_cast<int>(*port)};
}

/// As the library does, but for a URI in the wrong place, which may have a password.
std::string parse_schema(const std::string& text) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const bool valid =
      !text.empty() && text.size() <= 63 && is_letter(text.front()) &&
      std::ranges::all_of(text, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
  if (!valid) refuse(text, "is a letter or _, then letters, digits or _, at most 63");
  return text;
}

LogFormat parse_log_format(const std::string& text) {
  if (text == "text") return LogFormat::text;
  if (text == "json") return LogFormat::json;
  refuse(text, "are text and json");
}

spdlog::level::level_enum parse_log_level(const std::string& text) {
  if (text == "debug") return spdlog::level::debug;
  if (text == "info") return spdlog::level::info;
  if (text == "warn") return spdlog::level::warn;
  if (text == "error") return spdlog::level::err;
  refuse(text, "are debug, info, warn and error");
}

// Setters: the member that a value goes to, and what is allowed.

auto duration(milliseconds QueueConfig::*member, milliseconds least, milliseconds most) {
  return [=](QueueConfig& config, const std::string& text) {
    config.*member = parse_duration(text, least, most);
  };
}

auto duration(milliseconds Config::*member, milliseconds least, milliseconds most) {
  return [=](Config& config, const std::string& text) {
    config.*member = parse_duration(text, least, most);
  };
}

/// A duration, or a word for none.
auto duration_or(std::string_view word, std::optional<milliseconds> QueueConfig::*member,
                 milliseconds least, milliseconds most) {
  return [=](QueueConfig& config, const std::string& text) {
    if (text == word) {
      config.*member = std::nullopt;
      return;
    }
    try {
      config.*member = parse_duration(text, least, most);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(std::string(error.what()) + ", or " + std::string(word));
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

std::vector<Setting> make_settings() {
  using enum Setting::Scope;
  return {
      {"listen",
       "127.0.0.1:9464",
       "HOST:PORT",
       "Where /metrics, /healthz, /readyz and /status are; port 0 is any free one, off is none",
       daemon,
       parsed(&Config::listen, parse_listen),
       {}},
      {"log-format",
       "text",
       "FORMAT",
       "text, or json: one object a line",
       daemon,
       parsed(&Config::log_format, parse_log_format),
       {}},
      {"log-level",
       "info",
       "LEVEL",
       "debug, info, warn or error",
       daemon,
       parsed(&Config::log_level, parse_log_level),
       {}},
      {"shutdown-timeout",
       "10s",
       "TIME",
       "How long rounds under way may take to end after SIGTERM; then it leaves all the same",
       daemon,
       duration(&Config::shutdown_timeout, 0ms, 1h),
       {}},
      {"redis",
       "",
       "URI",
       "A Redis whose locks are counted, held and stale",
       daemon,
       text(&Config::redis),
       {}},
      {"lock-scan-interval",
       "1m",
       "TIME",
       "Between two counts of the locks",
       daemon,
       duration(&Config::lock_scan_interval, 100ms, 24h),
       {}},

      {"database",
       "",
       "URI",
       "The PostgreSQL that has the tasks, or the file: sqlite:PATH",
       queue,
       {},
       text(&QueueConfig::database)},
      {"schema",
       "leasehold",
       "NAME",
       "The schema of the tables",
       queue,
       {},
       parsed(&QueueConfig::schema, parse_schema)},
      {"sweep-interval",
       "5s",
       "TIME",
       "A round begins at most this long after the one before; shortened by up to a quarter at "
       "random",
       queue,
       {},
       duration(&QueueConfig::sweep_interval, 50ms, 1h)},
      {"max-crashes",
       "3",
       "NUMBER",
       "A task whose lease expires for this many-th time is dead",
       queue,
       {},
       number(&QueueConfig::max_crashes, 1, 1'000'000)},
      {"retain-completed",
       "1d",
       "TIME",
       "How long completed tasks are kept, or forever",
       queue,
       {},
       duration_or("forever", &QueueConfig::retain_completed, 0ms, ten_years)},
      {"retain-cancelled",
       "1d",
       "TIME",
       "How long cancelled tasks are kept, or forever",
       queue,
       {},
       duration_or("forever", &QueueConfig::retain_cancelled, 0ms, ten_years)},
      {"retain-dead",
       "forever",
       "TIME",
       "How long dead tasks are kept, or forever",
       queue,
       {},
       duration_or("forever", &QueueConfig::retain_dead, 0ms, ten_years)},
      {"long-transaction",
       "5m",
       "TIME",
       "Warn of a transaction that has held vacuum back for this long",
       queue,
       {},
       duration(&QueueConfig::long_transaction, 1ms, ten_years)},
      {"count-limit",
       "10000",
       "NUMBER",
       "Tasks of a type and state are counted up to this many; more cost more",
       queue,
       {},
       number(&QueueConfig::count_limit, 1, 1'000'000'000)},
      {"max-types",
       "50",
       "NUMBER",
       "Types of tasks shown by name, the others are summed up as \"other\"",
       queue,
       {},
       number(&QueueConfig::max_types, 0, 10'000)},
      {"connect-timeout",
       "5s",
       "TIME",
       "For a connection to be made, in whole seconds",
       queue,
       {},
       duration(&QueueConfig::connect_timeout, 2s, 1h)},
      {"command-timeout",
       "10s",
       "TIME",
       "For the server to answer one statement",
       queue,
       {},
       duration(&QueueConfig::command_timeout, 100ms, 1h)},
      {"max-round-age",
       "auto",
       "TIME",
       "/readyz says no when the last round is older; auto is 3 sweep intervals and a "
       "command-timeout",
       queue,
       {},
       duration_or("auto", &QueueConfig::max_round_age, 100ms, ten_years)},
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

milliseconds parse_duration(const std::string& text, milliseconds least, milliseconds most) {
  const auto allowed = [&] {
    return "are " + format_duration(least) + " to " + format_duration(most) +
           ", written like 500ms, 5s, 2m, 1h or 7d";
  };
  const auto digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto number = parse_digits(std::string_view(text).substr(0, digits));
  const auto unit = std::ranges::find(units, std::string_view(text).substr(digits), &Unit::name);
  // The division keeps the product from overflowing.
  if (!number || unit == units.end() || *number > most / unit->length) refuse(text, allowed());
  const milliseconds time = *number * unit->length;
  if (time < least) refuse(text, allowed());
  return time;
}

std::string format_duration(milliseconds time) {
  const Unit* best = &units.front();
  for (const Unit& unit : units) {
    if (time != 0ms && time % unit.length == 0ms) best = &unit;
  }
  return std::to_string(time / best->length) + std::string(best->name);
}

}  // namespace leasehold::worker
