#pragma once

#include <chrono>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "leasehold/errors.hpp"
#include "leasehold/redis_link.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {

/// One command through a link under test.
inline leasehold::RedisReply call(RedisLink& link, std::initializer_list<std::string_view> words,
                                  std::optional<std::chrono::milliseconds> timeout = {}) {
  const RedisCommand command{words.begin(), words.size()};
  auto replies = link.pipeline({&command, 1}, {.timeout = timeout});
  return std::move(replies.at(0));
}

/// Several commands in one go.
inline std::vector<leasehold::RedisReply> call_all(
    RedisLink& link, const std::vector<std::vector<std::string_view>>& commands) {
  const std::vector<RedisCommand> spans(commands.begin(), commands.end());
  return link.pipeline(spans);
}

/// How a call ended.
enum class End { answered, unavailable, unknown, refused };

template <typename Call>
End end_of(Call&& call) {
  try {
    call();
    return End::answered;
  } catch (const Unavailable&) {
    return End::unavailable;
  } catch (const OutcomeUnknown&) {
    return End::unknown;
  } catch (const ServerRefused&) {
    return End::refused;
  }
}

inline std::ostream& operator<<(std::ostream& out, End end) {
  constexpr const char* words[] = {"answered", "unavailable", "unknown", "refused"};
  return out << words[static_cast<int>(end)];
}

}  // namespace leasehold::testing
