#include "tasks/validation.hpp"

#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "leasehold/errors.hpp"
#include "support/json_depth.hpp"
#include "support/quote.hpp"
#include "support/ranges.hpp"
#include "support/utf8.hpp"

namespace leasehold::inline v0 {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

constexpr std::size_t longest_type = 128;
constexpr std::size_t longest_worker = 256;
constexpr std::size_t longest_key = 512;
constexpr std::size_t longest_error = 4096;
constexpr int highest_priority = 1'000'000;
constexpr milliseconds longest_time = hours{24 * 3653};

void check_time(const char* what, milliseconds value, milliseconds least, milliseconds most) {
  check_range(what, value, least, most);
}

void check_text(const char* what, std::string_view text, std::size_t longest) {
  if (text.empty() || text.size() > longest) {
    throw InvalidArgument(std::string(what) + " must have 1 to " + std::to_string(longest) +
                          " bytes, got " + std::to_string(text.size()) + " (" + in_quotes(text) +
                          ")");
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte == 0x7f || is_long_control(text, i)) {
      throw InvalidArgument(std::string(what) + " must not contain control characters, got " +
                            in_quotes(text));
    }
  }
  if (!is_utf8(text)) {
    throw InvalidArgument(std::string(what) + " " + in_quotes(text) + " is not UTF-8");
  }
}

void check_type(std::string_view type) { check_text("task type", type, longest_type); }

void check_time_point(const char* what, std::chrono::system_clock::time_point time) {
  const auto since = std::chrono::floor<milliseconds>(time.time_since_epoch());
  if (since >= milliseconds{0}) return;  // a time_point reaches to 2262
  throw InvalidArgument(std::string(what) + " must be in the years 1970 to 2262, got " +
                        std::to_string(since.count()) + " ms since 1970");
}

void check_new_task(const NewTask& task, std::size_t largest_payload) {
  check_type(task.type);
  check_json("payload", task.payload, largest_payload);
  check_range("priority", task.priority, -highest_priority, highest_priority);
  if (task.run_at) check_time_point("run_at", *task.run_at);
  check_delay("delay", task.delay);
  check_range("max_attempts", task.max_attempts, 1, 1'000'000);
  if (!task.unique_key.empty()) check_text("unique_key", task.unique_key, longest_key);
}

}  // namespace

void check_queue_options(const TaskQueueOptions& options) {
  check_backoff(options.backoff);
  check_range<std::size_t>("largest_payload", options.largest_payload, 1, 64 * 1024 * 1024);
  if (options.recovery) check_recovery_options(*options.recovery);
  if (const auto time = options.retention.time()) {
    check_time("retention", *time, milliseconds{0}, longest_time);
  }
}

void check_new_tasks(std::span<const NewTask> tasks, std::size_t largest_payload) {
  check_range<std::size_t>("number of tasks", tasks.size(), 1, 100'000);
  for (const NewTask& task : tasks) check_new_task(task, largest_payload);
}

void check_lease_request(const LeaseRequest& request) {
  check_range<std::size_t>("number of types", request.types.size(), 1, 1'000);
  std::set<std::string_view> seen;
  for (const std::string& type : request.types) {
    check_type(type);
    if (!seen.insert(type).second) {
      throw InvalidArgument("task type " + in_quotes(type) + " is given twice");
    }
  }
  check_range<std::size_t>("limit", request.limit, 1, 10'000);
  check_lease_duration(request.duration);
  if (!request.worker.empty()) check_text("worker", request.worker, longest_worker);
  check_range<std::size_t>("max_bytes", request.max_bytes, 1, 1024 * 1024 * 1024);
}

void check_lease_duration(milliseconds duration) {
  check_time("lease duration", duration, milliseconds{100}, hours{24});
}

void check_delay(const char* what, milliseconds delay) {
  check_time(what, delay, milliseconds{0}, longest_time);
}

void check_backoff(const TaskBackoff& backoff) {
  check_range("backoff.factor", backoff.factor, 1.0, 100.0);
  check_time("backoff.first", backoff.first, milliseconds{1}, longest_time);
  check_time("backoff.longest", backoff.longest, backoff.first, longest_time);
}

void check_json(const char* what, std::string_view json, std::size_t largest) {
  if (json.size() > largest) {
    throw InvalidArgument(std::string(what) + " must have at most " + std::to_string(largest) +
                          " bytes, got " + std::to_string(json.size()));
  }
  // First, because it decides whether a parser may see the text.
  const std::size_t depth = json_depth(json);
  if (depth > deepest_json) {
    throw InvalidArgument(std::string(what) + " must be nested at most " +
                          std::to_string(deepest_json) + " deep, got " + std::to_string(depth));
  }
  // The parser takes a NUL for the end and skips a byte order mark; databases do neither.
  const bool foreign =
      json.find('\0') != std::string_view::npos || json.starts_with("\xef\xbb\xbf");
  if (foreign || !nlohmann::json::accept(json)) {
    throw InvalidArgument(std::string(what) + " " + in_quotes(json) + " is not JSON");
  }
}

void check_changes(const TaskChanges& changes, std::size_t largest_payload) {
  if (changes.payload) check_json("payload", *changes.payload, largest_payload);
  if (changes.priority) {
    check_range("priority", *changes.priority, -highest_priority, highest_priority);
  }
  if (changes.run_at) check_time_point("run_at", *changes.run_at);
  if (changes.progress) check_json("progress", *changes.progress, largest_payload);
}

void check_filter(const TaskFilter& filter) {
  if (filter.type) check_type(*filter.type);
  if (filter.worker) check_text("worker", *filter.worker, longest_worker);
  check_range<std::size_t>("limit", filter.limit, 1, 10'000);
}

void check_removal(const Removal& removal) {
  for (const auto& age : {removal.completed, removal.cancelled, removal.dead}) {
    if (age) check_time("age", *age, milliseconds{0}, longest_time);
  }
  check_range<std::size_t>("chunk", removal.chunk, 1, 100'000);
}

void check_recovery_options(const RecoveryOptions& options) {
  check_range("max_crashes", options.max_crashes, 1, 1'000'000);
  check_range<std::size_t>("batch", options.batch, 1, 10'000);
}

void check_worker_options(const WorkerOptions& options) {
  check_range<std::size_t>("concurrency", options.concurrency, 1, 1'024);
  check_lease_duration(options.lease);
  check_range<std::size_t>("prefetch", options.prefetch, 0, 8'000);
  check_range<std::size_t>("prefetch_bytes", options.prefetch_bytes, 0, 1024 * 1024 * 1024);
  check_time("poll_min", options.poll_min, milliseconds{1}, hours{1});
  check_time("poll_max", options.poll_max, options.poll_min, hours{1});
  check_time("stop_grace", options.stop_grace, milliseconds{0}, hours{24});
  if (!options.name.empty()) check_text("worker name", options.name, longest_worker);
}

void check_handler(std::string_view type, const HandlerOptions& options) {
  check_type(type);
  if (options.limit) check_range<std::size_t>("limit", *options.limit, 1, 10'000);
  if (options.deadline) check_time("deadline", *options.deadline, milliseconds{1}, longest_time);
}

void check_resource(std::string_view resource) { check_text("resource", resource, longest_key); }

std::int64_t checked_token(FencingToken token) {
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  check_range<std::uint64_t>("fencing token", token.value, 0, most);
  return static_cast<std::int64_t>(token.value);
}

std::string as_kept_error(std::string_view error) {
  return utf8_prefix(replace_invalid_utf8(error.substr(0, longest_error)), longest_error);
}

}  // namespace leasehold::inline v0
