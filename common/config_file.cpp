#include "common/config_file.hpp"

#include <algorithm>
#include <fstream>
#include <system_error>

#include "common/secrets.hpp"
#include "common/settings.hpp"
#include "leasehold/errors.hpp"

namespace leasehold::common {
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
    throw InvalidArgument(source +
                          ": the name of a queue must be 1 to 63 letters, digits, -, _ or ., got " +
                          shown(name));
  }
}

/// Adds an empty queue. Throws InvalidArgument if the name is wrong or taken.
Values& add_queue(std::map<std::string, Values>& queues, std::string_view name,
                  const std::string& source) {
  check_queue_name(name, source);
  const auto [added, is_new] = queues.try_emplace(std::string(name));
  if (!is_new) {
    throw InvalidArgument(source + ": queue " + std::string(name) + " is defined twice");
  }
  return added->second;
}

enum class Place { general, queue };

/// The value never becomes part of a message: it may be a password in the wrong place.
void add(Values& values, Place place, std::string_view key, std::string_view value,
         const std::string& source) {
  const Setting* setting = find_setting(key);
  const bool for_queue = setting != nullptr && setting->scope == Setting::Scope::queue;
  if (place == Place::queue && !for_queue) {
    throw InvalidArgument(source + ": " + shown(key) + " is not a setting of a queue; those are " +
                          keys_of(Setting::Scope::queue));
  }
  if (setting == nullptr) {
    throw InvalidArgument(source + ": unknown key " + shown(key) + "; the keys are " +
                          keys_of(Setting::Scope::daemon) + ", " + keys_of(Setting::Scope::queue));
  }
  if (!values.emplace(std::string(key), Written{std::string(value), source}).second) {
    throw InvalidArgument(source + ": " + shown(key) + " is given twice");
  }
}

/// The value of a line, without its quotes and without a comment after it.
std::string_view read_value(std::string_view text, const std::string& source) {
  text = trim(text);
  if (text.starts_with('"')) {
    const auto end = text.find('"', 1);
    if (end == text.npos) throw InvalidArgument(source + ": the closing quotation mark is missing");
    const auto rest = trim(text.substr(end + 1));
    if (!rest.empty() && !rest.starts_with('#')) {
      throw InvalidArgument(source + ": only a comment may follow the closing quotation mark");
    }
    return text.substr(1, end - 1);
  }
  // A # inside a word is part of the word: a password may contain one.
  for (auto at = text.find('#'); at != text.npos; at = text.find('#', at + 1)) {
    if (at == 0 || blank.find(text[at - 1]) != blank.npos) return trim(text.substr(0, at));
  }
  return text;
}

/// The name in `[queue NAME]`.
std::string_view queue_in_heading(std::string_view line, const std::string& source) {
  constexpr std::string_view begin = "[queue ";
  const std::string_view heading = read_value(line, source);
  if (!heading.starts_with(begin) || !heading.ends_with(']')) {
    throw InvalidArgument(source + ": a section must be [queue NAME], got " + shown(heading));
  }
  return trim(heading.substr(begin.size(), heading.size() - begin.size() - 1));
}

/// Cuts words off the front of a text.
class Words {
 public:
  Words(std::string_view text, std::string source) : text_(text), source_(std::move(source)) {}

  bool at_end() {
    text_.remove_prefix(std::min(text_.find_first_not_of(blank), text_.size()));
    return text_.empty();
  }
  bool skip_semicolon() {
    if (!text_.starts_with(';')) return false;
    text_.remove_prefix(1);
    return true;
  }
  std::string_view name() { return cut(std::min(text_.find_first_of(" \t\r;"), text_.size())); }
  /// The key of `key=`.
  std::string_view key() {
    const auto equals = text_.find_first_of("= \t\r;");
    if (equals == text_.npos || text_[equals] != '=') {
      throw InvalidArgument(source_ +
                            ": must be NAME key=value key=value …, with a semicolon between two "
                            "queues");
    }
    const auto key = cut(equals);
    text_.remove_prefix(1);
    return key;
  }
  /// The value after it, perhaps in quotes.
  std::string_view value() {
    if (!text_.starts_with('"')) return name();
    text_.remove_prefix(1);
    const auto end = text_.find('"');
    if (end == text_.npos) {
      throw InvalidArgument(source_ + ": the closing quotation mark is missing");
    }
    const auto value = cut(end);
    text_.remove_prefix(1);
    return value;
  }

 private:
  std::string_view cut(std::size_t length) {
    const auto word = text_.substr(0, length);
    text_.remove_prefix(length);
    return word;
  }

  std::string_view text_;
  std::string source_;
};

}  // namespace

Layer read_config_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    throw InvalidArgument("cannot read the config file " + path + ": " +
                          std::generic_category().message(errno));
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
      section = &add_queue(layer.queues, queue_in_heading(line, source), source);
      place = Place::queue;
      continue;
    }
    const auto equals = line.find('=');
    if (equals == line.npos) {
      throw InvalidArgument(source + ": a line must be key = value or [queue NAME]");
    }
    add(*section, place, trim(line.substr(0, equals)), read_value(line.substr(equals + 1), source),
        source);
  }
  // A directory can be opened, but not read.
  if (file.bad()) throw InvalidArgument("cannot read the config file " + path);
  return layer;
}

std::map<std::string, Values> parse_queues(std::string_view text, const std::string& source) {
  std::map<std::string, Values> queues;
  Values* queue = nullptr;
  Words words(text, source);
  while (!words.at_end()) {
    if (words.skip_semicolon()) {
      queue = nullptr;
    } else if (queue == nullptr) {
      queue = &add_queue(queues, words.name(), source);
    } else {
      const auto key = words.key();
      add(*queue, Place::queue, key, words.value(), source);
    }
  }
  return queues;
}

}  // namespace leasehold::common
