#include "locks/validation.hpp"

#include <nlohmann/json.hpp>

#include "leasehold/errors.hpp"
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
    throw InvalidArgument(std::string(what) + " " + in_quotes(text) + " has " +
                          std::to_string(text.size()) + " bytes: allowed are 1 to 512");
  }
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f || c == '{' || c == '}') {
      throw InvalidArgument(std::string(what) + " " + in_quotes(text) +
                            ": control characters and braces are not allowed");
    }
  }
}

void check_range(const char* what, milliseconds value, milliseconds least, milliseconds most) {
  if (value >= least && value <= most) return;
  throw InvalidArgument(std::string(what) + " of " + std::to_string(value.count()) +
                        " ms: allowed are " + std::to_string(least.count()) + " ms to " +
                        std::to_string(most.count()) + " ms");
}

void check_retry(const RetryPolicy& retry) {
  if (retry.retries < 0 || retry.retries > 1'000'000) {
    throw InvalidArgument("retry.retries of " + std::to_string(retry.retries) +
                          ": allowed are 0 to 1000000");
  }
  if (!(retry.factor >= 1.0 && retry.factor <= 100.0)) {
    throw InvalidArgument("retry.factor of " + std::to_string(retry.factor) +
                          ": allowed are 1 to 100");
  }
  check_range("retry.first", retry.first, milliseconds{1}, longest_time);
  check_range("retry.longest", retry.longest, retry.first, longest_time);
}

/// The key of the first entry that is not UTF-8; the value may be nobody's business.
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
    throw InvalidArgument("priority of " + std::to_string(options.priority) +
                          ": allowed are -100 to 100");
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

std::string metadata_json(const LockOptions& options) {
  if (options.metadata.empty()) return {};
  std::string text;
  try {
    text = nlohmann::json(options.metadata).dump();
  } catch (const nlohmann::json::exception&) {
    throw InvalidArgument("metadata " + in_quotes(first_not_utf8(options.metadata)) +
                          ": keys and values have to be UTF-8");
  }
  if (text.size() > most_metadata) {
    throw InvalidArgument("metadata of " + std::to_string(text.size()) +
                          " bytes as JSON: allowed are 4096");
  }
  return text;
}

}  // namespace leasehold::inline v0
