#include <gtest/gtest.h>
#include <spdlog/logger.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "leasehold/errors.hpp"
#include "leasehold/locks.hpp"

namespace leasehold {
namespace {

using namespace std::chrono_literals;
using Type = RedisReply::Type;

/// Answers every command in the same way, as no Redis does.
class StubbornLink final : public RedisLink {
 public:
  explicit StubbornLink(RedisReply reply) : reply_(std::move(reply)) {}

  std::vector<RedisReply> pipeline(std::span<const RedisCommand> commands,
                                   const RedisCall& /*how*/) override {
    return std::vector<RedisReply>(commands.size(), reply_);
  }
  std::string where() const override { return "somewhere"; }

 private:
  const RedisReply reply_;
};

RedisReply text(std::string text) { return {.type = Type::string, .text = std::move(text)}; }
RedisReply number(long long value) { return {.type = Type::integer, .integer = value}; }
RedisReply list_of(std::vector<RedisReply> elements) {
  return {.type = Type::array, .elements = std::move(elements)};
}

LockClient client_of(RedisReply reply) {
  return LockClient{std::make_shared<StubbornLink>(std::move(reply)),
                    {.logger = std::make_shared<spdlog::logger>("none")}};
}

std::vector<std::function<void(LockClient&)>> every_call() {
  return {
      [](LockClient& client) { client.acquire("a", {.on_conflict = OnConflict::fail_fast}); },
      [](LockClient& client) { client.acquire("a", {.wait = 20ms}); },
      [](LockClient& client) { client.acquire("a", {.on_conflict = OnConflict::force}); },
      [](LockClient& client) { SharedLock(client, "a").read({.wait = 5ms}); },
      [](LockClient& client) { Semaphore(client, "a", 2).acquire({.wait = 5ms}); },
      [](LockClient& client) {
        client.acquire_all({"a", "b"}, {.wait = 5ms});
      },
      [](LockClient& client) { client.status("a"); },
      [](LockClient& client) { client.list(); },
      [](LockClient& client) { client.cleanup_stale(); },
      [](LockClient& client) { client.force_release("a"); },
      [](LockClient& client) { client.stats(StatsScope::store); },
  };
}

TEST(StrangeRepliesTest, OnlyOurOwnErrorsAreThrown) {
  const auto most = std::numeric_limits<long long>::max();
  const std::vector<RedisReply> replies{
      {},
      number(most),
      text("busy"),
      list_of({}),
      list_of({text("busy")}),
      list_of({text("1"), list_of({text("k"), text("lh:{"), {}})}),
      list_of({text("1"), number(1), text("x"), number(most), number(most), number(most),
               number(most), number(most), number(most)}),
      list_of({text("x"), number(most), number(1), number(most), number(most), number(most),
               number(most), list_of({{}, {}, {}}), list_of({{}, number(1)})}),
      {.type = Type::error, .text = "NOSCRIPT"},
  };
  for (const RedisReply& reply : replies) {
    LockClient client = client_of(reply);
    for (const auto& call : every_call()) {
      try {
        call(client);
      } catch (const Error&) {
      }  // any other ends the test
    }
  }
}

TEST(StrangeRepliesTest, ReplyToAnAcquireThatSaysNothingLeavesTheOutcomeUnknown) {
  LockClient client = client_of(list_of({}));
  EXPECT_THROW(client.acquire("a", {.wait = 0ms}), OutcomeUnknown);
}

TEST(StrangeRepliesTest, WalkOverKeysThatDoesNotGetOnEnds) {
  LockClient client = client_of(list_of({text("7"), list_of({})}));
  EXPECT_THROW(client.list(), OutcomeUnknown);
}

}  // namespace
}  // namespace leasehold
