// leasehold enqueue: one task from flags, or many from NDJSON.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>

#include "commands.hpp"
#include "common/secrets.hpp"
#include "flag_values.hpp"
#include "leasehold/errors.hpp"
#include "leasehold/task_queue.hpp"
#include "support/json_depth.hpp"
#include "text.hpp"

namespace leasehold::cli {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using namespace std::chrono_literals;

constexpr std::size_t batch_size = 1'000;
constexpr std::size_t batch_bytes = 8 * 1024 * 1024;  // of payloads; large tasks make small batches
constexpr std::size_t longest_line = 8 * 1024 * 1024;  // a payload may be written with escapes
constexpr int priority_limit = 1'000'000;
constexpr int attempts_limit = 1'000'000;
const std::vector<std::string> keys_of_a_line{"type",  "payload",      "priority",  "run_at",
                                              "delay", "max_attempts", "unique_key"};

struct EnqueueOptions {
  std::string type;
  std::string from;
  std::string payload;
  std::string payload_file;
  std::string priority;
  std::string run_at;
  std::string delay;
  std::string max_attempts;
  std::string unique_key;
};

std::ifstream open(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path)) {
    throw InvalidArgument("cannot read the file " + common::shown(path));
  }
  return file;
}

/// Reads no more than a payload may have: the file may be a pipe that does not end.
std::string read_payload(const std::string& path) {
  const std::size_t most = TaskQueueOptions{}.largest_payload;
  std::ifstream file = open(path);
  std::string payload(most + 1, '\0');
  file.read(payload.data(), static_cast<std::streamsize>(payload.size()));
  if (file.bad()) {
    throw Failure(ExitCode::failed, "cannot read the file " + common::shown(path));
  }
  payload.resize(static_cast<std::size_t>(file.gcount()));
  if (payload.size() > most) {
    throw InvalidArgument("payload must have at most " + std::to_string(most) +
                          " bytes, and the file " + common::shown(path) + " has more");
  }
  return payload;
}

/// The task that the flags describe; with --from, the defaults of all lines.
NewTask task_of(const EnqueueOptions& options) {
  if (!options.payload.empty() && !options.payload_file.empty()) {
    throw InvalidArgument("--payload and --payload-file exclude each other");
  }
  NewTask task;
  task.type = options.type;
  if (!options.payload.empty()) task.payload = options.payload;
  if (!options.payload_file.empty()) {
    task.payload = read_payload(options.payload_file);
  }
  if (!options.priority.empty()) {
    task.priority = static_cast<int>(
        parse_number("--priority", options.priority, -priority_limit, priority_limit));
  }
  if (!options.run_at.empty()) task.run_at = parse_time("--run-at", options.run_at);
  if (!options.delay.empty()) task.delay = parse_duration("--delay", options.delay, 0ms, ten_years);
  if (!options.max_attempts.empty()) {
    task.max_attempts =
        static_cast<int>(parse_number("--max-attempts", options.max_attempts, 1, attempts_limit));
  }
  task.unique_key = options.unique_key;
  return task;
}

std::string text_in(const json& value, const std::string& key) {
  if (value.is_string()) return value.get<std::string>();
  throw InvalidArgument(key + " must be a string");
}

int number_in(const json& value, const std::string& key) {
  // A number that is too large for an int64 would become negative.
  const bool too_large = value.is_number_unsigned() && value.get<std::uint64_t>() > 1'000'000;
  if (value.is_number_integer() && !too_large) {
    const auto number = value.get<std::int64_t>();
    if (number >= -1'000'000 && number <= 1'000'000) return static_cast<int>(number);
  }
  throw InvalidArgument(key + " must be a whole number from -1000000 to 1000000");
}

/// Reads one line of NDJSON; what it does not say comes from the defaults. Throws InvalidArgument.
NewTask parse_line(const std::string& line, const NewTask& defaults) {
  // Before the parser sees it: what is nested deeper would be copied and printed recursively.
  const std::size_t depth = json_depth(line);
  if (depth > deepest_json + 1) {  // the line is an object around the payload
    throw InvalidArgument("a line must be nested at most " + std::to_string(deepest_json + 1) +
                          " deep, got " + std::to_string(depth));
  }
  // Ordered, so that a payload keeps the order of its members.
  const ordered_json object = ordered_json::parse(line, nullptr, false);
  if (!object.is_object()) {
    throw InvalidArgument("a line must be a JSON object, got " + common::shown(line));
  }
  NewTask task = defaults;
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(keys_of_a_line, key) == keys_of_a_line.end()) {
      throw InvalidArgument("unknown key " + common::shown(key) + "; the keys are " +
                            joined(keys_of_a_line, ", "));
    }
    if (key == "payload") task.payload = value.dump();
    if (value.is_null()) continue;  // as if it were missing: databases export all columns
    if (key == "type") task.type = text_in(value, key);
    if (key == "priority") task.priority = number_in(value, key);
    if (key == "run_at") task.run_at = parse_time(key, text_in(value, key));
    if (key == "delay") task.delay = parse_duration(key, text_in(value, key), 0ms, ten_years);
    if (key == "max_attempts") task.max_attempts = number_in(value, key);
    if (key == "unique_key") task.unique_key = text_in(value, key);
  }
  if (task.type.empty()) {
    throw InvalidArgument("the type is missing; name it in the line or as an argument");
  }
  TaskQueue::check(task);  // here, because enqueue() could not name the line
  return task;
}

/// Reads lines of limited length: a pipe may send anything.
class LineReader {
 public:
  explicit LineReader(std::istream& input) : input_(input) {}

  enum class Result { line, too_long, end };

  /// After `line`, it is in line().
  Result next() {
    // It fails if the line has more than fits beside the zero that it adds.
    input_.getline(buffer_.get(), static_cast<std::streamsize>(longest_line + 1));
    const auto got = static_cast<std::size_t>(input_.gcount());
    if (input_.fail()) return got == 0 || input_.bad() ? Result::end : Result::too_long;
    line_.assign(buffer_.get(), input_.eof() ? got : got - 1);  // without the line break
    return Result::line;
  }
  const std::string& line() const { return line_; }

 private:
  std::istream& input_;
  std::unique_ptr<char[]> buffer_ = std::make_unique_for_overwrite<char[]>(longest_line + 1);
  std::string line_;
};

/// Calls `take(task, line number, bytes so far)` for every line that is not empty. Throws a Failure
/// that names the line.
template <typename Take>
void each_task(std::istream& input, const std::string& name, const NewTask& defaults, Take take) {
  LineReader reader(input);
  std::uint64_t bytes = 0;
  for (std::uint64_t number = 1;; ++number) {
    const LineReader::Result result = reader.next();
    if (result == LineReader::Result::end) break;
    const std::string& line = reader.line();
    bytes += line.size() + 1;
    NewTask task;
    try {
      if (result == LineReader::Result::too_long) {
        throw InvalidArgument("a line must have at most " + std::to_string(longest_line) +
                              " bytes, and this one has more");
      }
      if (line.find_first_not_of(" \t\r") == line.npos) continue;
      task = parse_line(line, defaults);
    } catch (const InvalidArgument& error) {
      throw Failure(ExitCode::misused, name + ":" + std::to_string(number) + ": " + error.what());
    }
    take(std::move(task), number, bytes);
  }
  if (input.bad()) throw Failure(ExitCode::failed, "cannot read " + name);
}

/// Sends tasks in batches, and knows how far it has come.
class Sender {
 public:
  explicit Sender(TaskQueue queue) : queue_(std::move(queue)) {}

  void add(NewTask task, std::uint64_t line) {
    bytes_ += task.payload.size();
    batch_.push_back(std::move(task));
    last_line_ = line;
    if (batch_.size() == batch_size || bytes_ >= batch_bytes) flush();
  }

  void flush() {
    if (batch_.empty()) return;
    for (const Enqueued& answer : queue_.enqueue(batch_)) {
      ++(answer.outcome == Enqueued::Outcome::added ? added_ : existed_);
    }
    batch_.clear();
    bytes_ = 0;
    sent_line_ = last_line_;
  }

  std::uint64_t added() const { return added_; }
  std::uint64_t existed() const { return existed_; }
  /// The last line that is in the store, and the last one of the batch that follows.
  std::uint64_t sent_line() const { return sent_line_; }
  std::uint64_t last_line() const { return last_line_; }

 private:
  TaskQueue queue_;
  std::vector<NewTask> batch_;
  std::size_t bytes_ = 0;  // of the batch's payloads
  std::uint64_t added_ = 0;
  std::uint64_t existed_ = 0;
  std::uint64_t last_line_ = 0;
  std::uint64_t sent_line_ = 0;
};

/// Throws a failure whose hint says where to continue.
[[noreturn]] void fail_in_the_middle(const Sender& sender, const Failure& failure) {
  const std::string next = std::to_string(sender.sent_line() + 1);
  std::string hint;
  if (failure.code() == ExitCode::unknown) {
    hint = with_commas(sender.added()) + " were added before; lines " + next + " to " +
           std::to_string(sender.last_line()) +
           " may have been added too, so check before you continue";
  } else if (sender.sent_line() > 0) {
    hint = with_commas(sender.added()) + " were added before; continue from line " + next +
           ", for example with tail -n +" + next;
  } else {
    hint = "Nothing was added" + (failure.hint().empty() ? "" : ". " + failure.hint());
  }
  throw Failure(failure.code(), failure.what(), hint);
}

/// Checks a whole file before anything is sent, so that a file with a bad line adds nothing.
/// Returns its size.
std::uint64_t check_file(const std::string& path, const NewTask& defaults) {
  std::ifstream file = open(path);
  const std::uint64_t size = std::filesystem::file_size(path);
  Progress progress("checking", size);
  try {
    each_task(file, path, defaults,
              [&](NewTask&&, std::uint64_t, std::uint64_t bytes) { progress.show(bytes); });
  } catch (const Failure& failure) {
    throw Failure(failure.code(), failure.what(), "Nothing was added");
  }
  return size;
}

/// Throws Failure.
void send_all(Sender& sender, std::istream& input, const std::string& name, std::uint64_t size,
              const NewTask& defaults) {
  try {
    std::optional<Failure> bad_line;
    try {
      Progress progress("adding", size);
      each_task(input, name, defaults,
                [&](NewTask&& task, std::uint64_t line, std::uint64_t bytes) {
                  sender.add(std::move(task), line);
                  progress.show(bytes, with_commas(sender.added()) + " added");
                });
    } catch (const Failure& failure) {
      bad_line = failure;
    }
    sender.flush();  // also after a bad line: those before it are added
    if (bad_line) fail_in_the_middle(sender, *bad_line);
  } catch (const Error& error) {
    fail_in_the_middle(sender, as_failure(error));
  }
}

ExitCode enqueue_many(Session& session, const EnqueueOptions& options) {
  const NewTask defaults = task_of(options);
  const bool from_input = options.from == "-";
  const std::string name = from_input ? "standard input" : options.from;
  // A pipe, like that of <(…), can be read only once.
  const bool twice = !from_input && std::filesystem::is_regular_file(options.from);
  const std::uint64_t size = twice ? check_file(options.from, defaults) : 0;
  std::ifstream file;
  if (!from_input) file = open(options.from);
  Sender sender(session.stores.tasks(NewFile::created));
  send_all(sender, from_input ? std::cin : file, name, size, defaults);
  if (session.json) {
    Session::print({{"added", sender.added()}, {"existed", sender.existed()}});
    return ExitCode::done;
  }
  std::cout << with_commas(sender.added()) << " added";
  if (sender.existed() > 0) {
    std::cout << ", " << with_commas(sender.existed())
              << " not added: a pending or leased task has the same unique key";
  }
  std::cout << "\n";
  return ExitCode::done;
}

ExitCode enqueue_one(Session& session, const EnqueueOptions& options) {
  if (options.type.empty()) {
    throw Failure(ExitCode::misused, "TYPE or --from is missing",
                  "Give the type of the task, or a file of tasks with --from FILE");
  }
  const NewTask task = task_of(options);
  const Enqueued answer = session.stores.tasks(NewFile::created).enqueue(task);
  if (session.json) {
    Session::print({{"id", answer.id.value}, {"outcome", to_string(answer.outcome)}});
  } else if (answer.outcome == Enqueued::Outcome::added) {
    std::cout << "task " << answer.id << " added\n";
  } else {
    std::cout << "not added: task " << answer.id << " has the same unique key\n";
  }
  return ExitCode::done;
}

}  // namespace

void add_enqueue(Commands& commands) {
  auto options = std::make_shared<EnqueueOptions>();
  CLI::App& app = commands.add(
      commands.root(),
      {.name = "enqueue",
       .summary = "Add a task, or many from a file",
       .details =
           "Adds one task of a TYPE, or with --from one for each line of a file. A line is a JSON "
           "object with the keys type, payload, priority, run_at, delay, max_attempts and "
           "unique_key; the flags are the defaults of all lines. A line can be up to 8 MiB "
           "long, a payload up to 1 MiB, and JSON can be nested up to 500 levels deep.\n\n"
           "A file with a bad line adds nothing. Standard input and other pipes are read as they "
           "arrive: the lines before a bad one are added, and the message says where to continue.",
       .examples = "leasehold enqueue mail --payload '{\"to\":7}'\n"
                   "leasehold enqueue report --delay 2h --unique-key report:today\n"
                   "leasehold enqueue --from tasks.ndjson\n"
                   "generate-tasks | leasehold enqueue video --from - --json"},
      {.tasks = true}, [options](Session& session) {
        return options->from.empty() ? enqueue_one(session, *options)
                                     : enqueue_many(session, *options);
      });
  app.add_option("TYPE", options->type, "The type of the task, which selects its handler");
  add_value(app, "--from", options->from, "FILE",
            "Add one task for each line (NDJSON); - is standard input");
  add_value(app, "--payload", options->payload, "JSON", "Payload for the handler [{}]");
  add_value(app, "--payload-file", options->payload_file, "FILE", "File with the payload");
  add_value(app, "--priority", options->priority, "NUMBER", "Higher priorities go first [0]");
  add_value(app, "--run-at", options->run_at, "TIME",
            "Do not start before, like 2026-11-16T14:31:06Z");
  add_value(app, "--delay", options->delay, "TIME",
            "Do not start for this long, like 30s, 5m or 2h");
  add_value(app, "--max-attempts", options->max_attempts, "NUMBER",
            "How often the task is tried [10]");
  add_value(app, "--unique-key", options->unique_key, "TEXT",
            "Do not add the task while another one with this key is pending or leased");
}

}  // namespace leasehold::cli
