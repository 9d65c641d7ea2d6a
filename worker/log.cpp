#include "log.hpp"

#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "common/iso_time.hpp"
#include "support/log_line.hpp"
#include "support/utf8.hpp"

namespace leasehold::worker {
namespace {

/// The keys that the formatter itself adds.
constexpr std::array<std::string_view, 4> own_keys{"time", "level", "message", "queue"};

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

/// Reads a line of ours. Returns nothing for a text that was not written by log_line(), or that
/// has a key of the formatter's own: then nothing in it is taken for a pair.
std::optional<LoggedLine> parse(std::string_view text) {
  auto line = parse_log_line(text);
  if (!line) return std::nullopt;
  const bool clash = std::ranges::any_of(line->fields, [](const auto& field) {
    return std::ranges::find(own_keys, field.first) != own_keys.end();
  });
  return clash ? std::nullopt : std::move(line);
}

std::string queue_of(const spdlog::details::log_msg& event) {
  return {event.logger_name.data(), event.logger_name.size()};
}

std::string as_text(const spdlog::details::log_msg& event, std::string text) {
  const auto line = parse(text);
  std::size_t end_of_name = line ? line->fields_at : 0;
  if (!line) {
    text = log_value(text);
    end_of_name = text.size();
  }
  const std::string queue = queue_of(event);
  if (!queue.empty()) text.insert(end_of_name, " queue=" + log_value(queue));
  return common::iso_time(event.time) + " " + level_of(event) + " " + text;
}

std::string as_json(const spdlog::details::log_msg& event, const std::string& text) {
  const auto line = parse(text);
  nlohmann::ordered_json object{{"time", common::iso_time(event.time)},
                                {"level", level_of(event)},
                                {"message", line ? line->event : text}};
  const std::string queue = queue_of(event);
  if (!queue.empty()) object["queue"] = queue;
  if (line) {
    for (const auto& [key, value] : line->fields) {
      std::visit([&, &name = key](const auto& content) { object[name] = content; }, value);
    }
  }
  return object.dump();
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
