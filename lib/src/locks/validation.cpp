#include "locks/validation.hpp"

#include <nlohmann/json.hpp>

#include "leasehold/errors.hpp"
#include "support/duration_text.hpp"
#include "support/quote.hpp"
#include "support/utf8.hpp"

namespace leasehold::inline v0 {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

constexpr std::size_t longest_name = 512;
constexpr std::size_t most_metadata = 4096;
constexpr milliseconds shortest_ttl{20};
constexpr milliseconds longest_ttl = hours{24};
constexpr milliseconds longest_time = hours{24 * 365};

void check_text(const char* what, std::string_view text) {
  if (text.empty() || text.size() > longest_name) {
    throw InvalidArgument(std::string(what) + " must have 1 to 512 bytes, got " +
                          std::to_string(text.size()) + ": " + in_quotes(text));
  }
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f || c == '{' || c == '}') {
      throw InvalidArgument(std::string(what) +
                            " must not have control characters or braces, got " + in_quotes(text));
    }
  }
}

void check_range(const char* what, milliseconds value, milliseconds least, milliseconds most) {
  if (value >= least && value <= most) return;
  throw InvalidArgument(std::string(what) + " must be " + duration_text(least) + " to " +
                        duration_text(most) + ", got " + duration_text(value));
}

void check_retry(const RetryPolicy& retry) {
  if (retry.retries < 0 || retry.retries > 1'000'000) {
    throw InvalidArgument("retry.retries must be 0 to 1000000, got " +
                          std::to_string(retry.retries));
  }
  if (!(retry.factor >= 1.0 && retry.factor <= 100.0)) {
    throw InvalidArgument("retry.factor must be 1 to 100, got " + std::to_string(retry.factor));
  }
  check_range("retry.first", retry.first, milliseconds{1}, longest_time);
  check_range("retry.longest", retry.longest, retry.first, longest_time);
}

/// The key of the first entry that is not UTF-8. The value is not shown because it may be private.
std::string first_not_utf8(const std::map<std::string, std::string>& metadata) {
  for (const auto& [key, value] : metadata) {
    if (!is_utf8(key) || !is_utf8(value)) return key;
  }
  return {};
}

}  // namespace

void check_lock_name(std::string_view name) { check_text("lock name", name); }

void check_lock_pattern(std::string_view pattern) { check_text("lock name pattern", pattern); }

void check_lock_options(const LockOptions& options) {
  check_range("ttl", options.ttl, shortest_ttl, longest_ttl);
  if (options.wait != LockOptions::forever) {
    check_range("wait", options.wait, milliseconds{0}, longest_time);
  }
  if (options.heartbeat_every != milliseconds{0}) {
    check_range("heartbeat_every", options.heartbeat_every, milliseconds{1}, options.ttl / 2);
  }
  if (options.max_hold != milliseconds{0}) {
    check_range("max_hold", options.max_hold, shortest_ttl, longest_time);
  }
  if (options.priority < -100 || options.priority > 100) {
    throw InvalidArgument("priority must be -100 to 100, got " + std::to_string(options.priority));
  }
  check_range("steal_after", options.steal_after, milliseconds{1}, longest_time);
  check_retry(options.retry);
}

void check_keep_time(const char* what, milliseconds value) {
  check_range(what, value, milliseconds{1'000}, hours{24 * 30});
}

void check_sqlite_timeout(milliseconds value) {
  check_range("sqlite.timeout", value, milliseconds{1}, hours{1});
}

void check_replicas(const RedisReplicas& replicas, milliseconds command_timeout) {
  if (replicas.needed == RedisReplicas::Needed::none) return;
  check_range("replicas.timeout", replicas.timeout, milliseconds{1}, command_timeout / 2);
}

std::string metadata_json(const LockOptions& options) {
  if (options.metadata.empty()) return {};
  std::string text;
  try {
    text = nlohmann::json(options.metadata).dump();
  } catch (const nlohmann::json::exception&) {
    throw InvalidArgument("metadata must have keys and values in UTF-8, got other bytes in " +
                          in_quotes(first_not_utf8(options.metadata)));
  }
  if (text.size() > most_metadata) {
    throw InvalidArgument("metadata must have at most 4096 bytes as JSON, got " +
                          std::to_string(text.size()));
  }
  return text;
}

}  // namespace leasehold::inline v0
