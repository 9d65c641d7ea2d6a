#include "tests/history/history.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>

namespace leasehold::testing {
namespace {

template <typename Enum>
using Names = std::vector<std::pair<Enum, const char*>>;

const Names<Op> op_names{
    {Op::acquire, "acquire"},     {Op::check, "check"},     {Op::extend, "extend"},
    {Op::downgrade, "downgrade"}, {Op::release, "release"}, {Op::watch, "watch"},
    {Op::read, "read"},           {Op::write, "write"},     {Op::force_release, "force_release"},
    {Op::data_loss, "data_loss"}, {Op::kill, "kill"},       {Op::fault, "fault"},
    {Op::revived, "revived"},     {Op::stuck, "stuck"}};
const Names<Phase> phase_names{{Phase::invoke, "invoke"},
                               {Phase::ok, "ok"},
                               {Phase::fail, "fail"},
                               {Phase::lost, "lost"},
                               {Phase::unknown, "unknown"}};
const Names<Kind> kind_names{
    {Kind::exclusive, "exclusive"}, {Kind::shared, "shared"}, {Kind::permit, "permit"}};

template <typename Enum>
const char* name_of(const Names<Enum>& names, Enum value) {
  for (const auto& [known, name] : names) {
    if (known == value) return name;
  }
  return "?";
}

template <typename Enum>
Enum value_of(const Names<Enum>& names, std::string_view word) {
  for (const auto& [value, name] : names) {
    if (word == name) return value;
  }
  throw std::invalid_argument("unknown word " + std::string(word));
}

void read_field(Event& event, std::string_view name, const std::string& value) {
  if (name == "kind") {
    event.kind = value_of(kind_names, value);
  } else if (name == "limit") {
    event.limit = std::stoi(value);
  } else if (name == "ttl") {
    event.ttl = std::stoll(value);
  } else if (name == "overrides") {
    event.overrides = value == "1";
  } else if (name == "token") {
    event.token = std::stoull(value);
  } else if (name == "until") {
    event.until = std::stoll(value);
  } else if (name == "from") {
    event.from = std::stoll(value);
  } else if (name == "value") {
    event.value = std::stoll(value);
  } else if (name == "reason") {
    event.reason = value;
  } else {
    throw std::invalid_argument("unknown field " + std::string(name));
  }
}

/// The whole lines of a text.
std::vector<Event> parse_lines(std::string_view text, const std::string& file) {
  std::vector<Event> events;
  std::size_t number = 0;
  for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    ++number;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (line.find_first_not_of(' ') == std::string_view::npos) continue;
    events.push_back(parse_line(line));
    events.back().place = file + ":" + std::to_string(number);
  }
  return events;
}

void sort_by_time(std::vector<Event>& events) {
  std::stable_sort(events.begin(), events.end(),
                   [](const Event& a, const Event& b) { return a.time < b.time; });
}

std::string contents(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace

const char* to_string(Op op) { return name_of(op_names, op); }
const char* to_string(Phase phase) { return name_of(phase_names, phase); }

std::string to_line(const Event& event) {
  std::ostringstream line;
  line << event.time << ' ' << event.process << ' ' << event.thread << ' ' << event.grant << ' '
       << to_string(event.op) << ' ' << event.lock << ' ' << to_string(event.phase);
  if (event.op == Op::acquire) line << " kind=" << name_of(kind_names, event.kind);
  if (event.limit != 0) line << " limit=" << event.limit;
  if (event.ttl != 0) line << " ttl=" << event.ttl;
  if (event.overrides) line << " overrides=1";
  if (event.token != 0) line << " token=" << event.token;
  if (event.until != 0) line << " until=" << event.until;
  if (event.from != 0) line << " from=" << event.from;
  if (event.value != 0) line << " value=" << event.value;
  if (!event.reason.empty()) line << " reason=" << event.reason;
  return line.str();
}

Event parse_line(std::string_view line) {
  try {
    std::istringstream words{std::string(line)};
    Event event;
    std::string op;
    std::string phase;
    words >> event.time >> event.process >> event.thread >> event.grant >> op >> event.lock >>
        phase;
    if (!words) throw std::invalid_argument("too short");
    event.op = value_of(op_names, op);
    event.phase = value_of(phase_names, phase);
    for (std::string field; words >> field;) {
      const auto equals = field.find('=');
      if (equals == std::string::npos) throw std::invalid_argument("no = in " + field);
      read_field(event, field.substr(0, equals), field.substr(equals + 1));
    }
    return event;
  } catch (const std::exception& error) {
    throw std::invalid_argument("history line \"" + std::string(line) + "\": " + error.what());
  }
}

std::int64_t history_now() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds{1};
}

Recorder::Recorder(const std::filesystem::path& directory, const std::string& process)
    : process_(process) {
  const auto path = directory / (process + ".history");
  file_ = harness::FileDescriptor{
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, S_IRUSR | S_IWUSR)};
  if (!file_) throw std::system_error(errno, std::generic_category(), path.string());
}

void Recorder::record(Event event) const {
  if (event.process.empty()) event.process = process_;
  const std::string line = to_line(event) + "\n";
  if (::write(file_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    throw std::system_error(errno, std::generic_category(), "history of " + process_);
  }
}

std::size_t History::operations() const {
  return static_cast<std::size_t>(
      std::count_if(events.begin(), events.end(), [](const Event& event) {
        return event.phase == Phase::invoke && event.op != Op::data_loss && event.op != Op::fault;
      }));
}

std::size_t History::grants() const {
  return static_cast<std::size_t>(std::count_if(
      events.begin(), events.end(),
      [](const Event& event) { return event.op == Op::acquire && event.phase == Phase::ok; }));
}

History read_history(const std::filesystem::path& directory) {
  History history;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const auto& path = entry.path();
    const std::string file = path.filename().string();
    if (path.extension() == ".history") {
      auto events = parse_lines(contents(path), file);
      std::move(events.begin(), events.end(), std::back_inserter(history.events));
    } else if (path.extension() == ".register") {
      history.registers[path.stem().string()] = parse_lines(contents(path), file);
    }
  }
  sort_by_time(history.events);
  return history;
}

std::size_t count_operations(const std::filesystem::path& directory) {
  constexpr std::string_view invoke = " invoke";
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() != ".history") continue;
    const std::string text = contents(entry.path());
    for (auto at = text.find(invoke); at != std::string::npos; at = text.find(invoke, at + 1)) {
      ++count;
    }
  }
  return count;
}

History parse_history(std::string_view text) {
  History history;
  for (Event& event : parse_lines(text, "line")) {
    const bool accepted =
        (event.op == Op::read || event.op == Op::write) && event.phase == Phase::ok;
    auto& events = accepted ? history.registers[event.lock] : history.events;
    events.push_back(std::move(event));
  }
  sort_by_time(history.events);
  return history;
}

}  // namespace leasehold::testing
