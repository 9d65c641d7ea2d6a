#include "log.hpp"

#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "common/iso_time.hpp"
#include "support/utf8.hpp"

namespace leasehold::worker {
namespace {

/// The keys whose values are numbers in JSON. The key decides, not the value: a task's type may be
/// "42", and log collectors want a key to have one type.
constexpr std::array number_keys{
    "id",       "version", "token",   "previous_token", "crashes",      "pid",
    "requeued", "dead",    "removed", "queues",         "transactions", "dead_rows",
};

bool is_number(std::string_view key, std::string_view value) {
  const bool may_be =
      key.ends_with("_ms") || key.ends_with("_s") ||
      std::ranges::any_of(number_keys, [&](std::string_view name) { return name == key; });
  return may_be && !value.empty() && value.size() <= 18 &&
         value.find_first_not_of("0123456789") == value.npos;
}

/// The position of the next `key=` at or after `from`, or npos.
std::size_t next_key(std::string_view text, std::size_t from) {
  for (std::size_t at = from; at < text.size(); at = text.find(' ', at) + 1) {
    const bool begins_a_word = at == 0 || text[at - 1] == ' ';
    const auto end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", at);
    if (begins_a_word && end != text.npos && end > at && text[end] == '=') return at;
    if (text.find(' ', at) == text.npos) break;
  }
  return text.npos;
}

/// Where the value that begins at `begin` ends: before the next key, or at its quotation mark.
std::size_t end_of_value(std::string_view text, std::size_t begin) {
  if (begin < text.size() && text[begin] == '"') {
    for (auto at = text.find('"', begin + 1); at != text.npos; at = text.find('"', at + 1)) {
      // There may be more quotation marks inside, as in PostgreSQL's messages.
      if (at + 1 == text.size() || next_key(text, at + 2) == at + 2) return at + 1;
    }
  }
  const auto key = next_key(text, begin);
  return key == text.npos ? text.size() : key - 1;
}

std::string level_of(const spdlog::details::log_msg& event) {
  switch (event.level) {
    case spdlog::level::trace:
    case spdlog::level::debug:
      return "debug";
    case spdlog::level::info:
      return "info";
    case spdlog::level::warn:
      return "warn";
    default:
      return "error";
  }
}

std::string as_text(const spdlog::details::log_msg& event, std::string text) {
  std::string queue(event.logger_name.data(), event.logger_name.size());
  if (!queue.empty()) {
    // Always the first of the pairs.
    const auto key = next_key(text, 0);
    const auto at = key == text.npos ? text.size() : key;
    text.insert(at, at == text.size() ? " queue=" + queue : "queue=" + queue + " ");
  }
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
  return common::iso_time(event.time) + " " + level_of(event) + " " + text;
}

std::string as_json(const spdlog::details::log_msg& event, std::string_view text) {
  nlohmann::ordered_json line{{"time", common::iso_time(event.time)}, {"level", level_of(event)}};
  const auto pairs = next_key(text, 0);
  auto message = text.substr(0, pairs);
  while (message.ends_with(' ')) message.remove_suffix(1);
  line["message"] = message;
  if (event.logger_name.size() > 0) {
    line["queue"] = std::string(event.logger_name.data(), event.logger_name.size());
  }
  for (auto at = pairs; at != text.npos;) {
    const auto equals = text.find('=', at);
    const std::string key(text.substr(at, equals - at));
    const auto end = end_of_value(text, equals + 1);
    auto value = text.substr(equals + 1, end - equals - 1);
    if (value.size() >= 2 && value.starts_with('"') && value.ends_with('"')) {
      value = value.substr(1, value.size() - 2);
    }
    if (is_number(key, value)) {
      line[key] = std::stoll(std::string(value));
    } else {
      line[key] = value;
    }
    at = end < text.size() ? next_key(text, end) : text.npos;
  }
  return line.dump();
}

}  // namespace

void LineFormatter::format(const spdlog::details::log_msg& event, spdlog::memory_buf_t& line) {
  std::string text = replace_invalid_utf8({event.payload.data(), event.payload.size()});
  text =
      format_ == common::LogFormat::json ? as_json(event, text) : as_text(event, std::move(text));
  text += '\n';
  line.append(text.data(), text.data() + text.size());
}

Log::Log(common::LogFormat format, spdlog::level::level_enum level)
    : sink_(std::make_shared<spdlog::sinks::stderr_sink_mt>()), logger_(for_queue("")) {
  change(format, level);
}

std::shared_ptr<spdlog::logger> Log::for_queue(const std::string& name) const {
  auto logger = std::make_shared<spdlog::logger>(name, sink_);
  logger->set_level(spdlog::level::trace);  // the sink decides
  return logger;
}

void Log::change(common::LogFormat format, spdlog::level::level_enum level) {
  sink_->set_formatter(std::make_unique<LineFormatter>(format));
  sink_->set_level(level);
}

}  // namespace leasehold::worker
