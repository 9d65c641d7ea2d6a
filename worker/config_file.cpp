#include "config_file.hpp"

#include <algorithm>
#include <fstream>
#include <system_error>

#include "leasehold/errors.hpp"
#include "secrets.hpp"
#include "settings.hpp"

namespace leasehold::worker {
namespace {

constexpr std::string_view blank = " \t\r";

std::string_view trim(std::string_view text) {
  const auto begin = std::min(text.find_first_not_of(blank), text.size());
  const auto end = text.find_last_not_of(blank);
  return end == text.npos ? std::string_view{} : text.substr(begin, end + 1 - begin);
}

void check_queue_name(std::string_view name, const std::string& source) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  if (name.empty() || name.size() > 63 || !std::ranges::all_of(name, allowed)) {
    throw InvalidArgument(source + ": the queue name " + shown(name) +
                          ": allowed are 1 to 63 letters, digits, -, _ and .");
  }
}

/// Where a key may stand.
enum class Place { general, queue };

/// The value is never part of a message: it may be a password that was put in the wrong place.
void add(Values& values, Place place, std::string_view key, std::string_view value,
         const std::string& source) {
  const Setting* setting = find_setting(key);
  const bool for_queue = setting != nullptr && setting->scope == Setting::Scope::queue;
  if (place == Place::queue && !for_queue) {
    throw InvalidArgument(source + ": " + shown(key) + " is no setting of a queue: allowed are " +
                          keys_of(Setting::Scope::queue));
  }
  if (setting == nullptr) {
    throw InvalidArgument(source + ": unknown key " + shown(key) + ": allowed are " +
                          keys_of(Setting::Scope::daemon) + "; " + keys_of(Setting::Scope::queue));
  }
  if (!values.emplace(std::string(key), Written{std::string(value), source}).second) {
    throw InvalidArgument(source + ": " + shown(key) + " is given twice");
  }
}

/// A value as it stands on a line: without a comment behind it and without quotes.
std::string_view read_value(std::string_view text, const std::string& source) {
  text = trim(text);
  if (text.starts_with('"')) {
    const auto end = text.find('"', 1);
    if (end == text.npos) throw InvalidArgument(source + ": a quotation mark is missing");
    const auto rest = trim(text.substr(end + 1));
    if (!rest.empty() && !rest.starts_with('#')) {
      throw InvalidArgument(source + ": only a comment may follow the closing quotation mark");
    }
    return text.substr(1, end - 1);
  }
  // A # inside of a word is part of it: a password may have one.
  for (auto at = text.find('#'); at != text.npos; at = text.find('#', at + 1)) {
    if (at == 0 || blank.find(text[at - 1]) != blank.npos) return trim(text.substr(0, at));
  }
  return text;
}

}  // namespace

Layer read_config_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    throw InvalidArgument("the config file " + path +
                          " can not be read: " + std::generic_category().message(errno));
  }
  Layer layer;
  Values* section = &layer.general;
  Place place = Place::general;
  std::string text;
  for (int number = 1; std::getline(file, text); ++number) {
    const std::string source = path + ":" + std::to_string(number);
    const std::string_view line = trim(text);
    if (line.empty() || line.starts_with('#')) continue;

    if (line.starts_with('[')) {
      const std::string_view head = read_value(line, source);
      constexpr std::string_view begin = "[queue ";
      if (!head.starts_with(begin) || !head.ends_with(']')) {
        throw InvalidArgument(source + ": the section " + shown(head) +
                              ": allowed is [queue NAME]");
      }
      const auto name = trim(head.substr(begin.size(), head.size() - begin.size() - 1));
      check_queue_name(name, source);
      const auto [made, is_new] = layer.queues.try_emplace(std::string(name));
      if (!is_new) throw InvalidArgument(source + ": a second section " + shown(head));
      section = &made->second;
      place = Place::queue;
      continue;
    }
    const auto equals = line.find('=');
    if (equals == line.npos) {
      throw InvalidArgument(source + ": neither \"key = value\" nor \"[queue NAME]\"");
    }
    add(*section, place, trim(line.substr(0, equals)), read_value(line.substr(equals + 1), source),
        source);
  }
  // A directory can be opened, but not read.
  if (file.bad()) throw InvalidArgument("the config file " + path + " can not be read");
  return layer;
}

std::map<std::string, Values> parse_queues(std::string_view text, const std::string& source) {
  std::map<std::string, Values> queues;
  Values* queue = nullptr;
  for (std::size_t at = 0; at < text.size();) {
    if (blank.find(text[at]) != blank.npos) {
      ++at;
      continue;
    }
    if (text[at] == ';') {
      queue = nullptr;
      ++at;
      continue;
    }
    if (queue == nullptr) {
      const auto end = std::min(text.find_first_of(" \t\r;", at), text.size());
      const auto name = text.substr(at, end - at);
      check_queue_name(name, source);
      const auto [made, is_new] = queues.try_emplace(std::string(name));
      if (!is_new) throw InvalidArgument(source + ": queue " + std::string(name) + " comes twice");
      queue = &made->second;
      at = end;
      continue;
    }
    const auto equals = text.find_first_of("= \t\r;", at);
    if (equals == text.npos || text[equals] != '=') {
      throw InvalidArgument(source +
                            ": expected NAME key=value key=value …, several queues "
                            "separated by semicolons");
    }
    const auto key = text.substr(at, equals - at);
    const bool quoted = text.substr(equals + 1).starts_with('"');
    const auto begin = equals + (quoted ? 2 : 1);
    auto end = text.find_first_of(quoted ? "\"" : " \t\r;", begin);
    if (quoted && end == text.npos) {
      throw InvalidArgument(source + ": a quotation mark is missing");
    }
    end = std::min(end, text.size());
    add(*queue, Place::queue, key, text.substr(begin, end - begin), source);
    at = quoted ? end + 1 : end;
  }
  return queues;
}

}  // namespace leasehold::worker
