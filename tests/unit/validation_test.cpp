// B2: bad input is refused with a message that names the value and what is allowed, before anything
// is sent.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "leasehold/errors.hpp"
#include "leasehold/locks.hpp"
#include "tests/support/message_of.hpp"

namespace leasehold {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using testing::contains;
using testing::message_of;

/// Nothing gets through; counts who tried.
class SpyLink final : public RedisLink {
 public:
  std::vector<RedisReply> pipeline(std::span<const RedisCommand>,
                                   const RedisCall& /*how*/) override {
    ++calls;
    throw Unavailable("the spy sends nothing");
  }
  std::string where() const override { return "nowhere"; }

  std::atomic<int> calls{0};
};

class ValidationTest : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(link->calls, sent) << "something was sent"; }

  std::string refusal_of_options(LockOptions options) {
    options.on_conflict = OnConflict::fail_fast;  // what is not refused must not wait for the spy
    return message_of<InvalidArgument>([&] { (void)client.acquire("name", options); });
  }

  /// Accepted options get as far as the link.
  void expect_accepted(LockOptions options) {
    options.on_conflict = OnConflict::fail_fast;
    EXPECT_THROW((void)client.acquire("name", options), Unavailable);
    EXPECT_GT(link->calls, sent);
    sent = link->calls;
  }

  std::shared_ptr<SpyLink> link = std::make_shared<SpyLink>();
  LockClient client{link};
  int sent = 0;
};

struct BadName {
  std::string name;
  std::string shown;
  std::string allowed;
};

std::vector<BadName> bad_names() {
  const std::string length = "must have 1 to 512 bytes";
  const std::string characters = "must not have control characters or braces";
  return {
      {"", "got 0: \"\"", length},
      {std::string(513, 'n'), "… (513 bytes)", length},
      {std::string(100'000, 'n'), "got 100000", length},
      {"a{b", "\"a{b\"", characters},
      {"a}b", "\"a}b\"", characters},
      {std::string("a\0b", 3), "\"a\\x00b\"", characters},
      {"a\nb", "\"a\\x0ab\"", characters},
      {"a\x1f", "\"a\\x1f\"", characters},
      {"a\x7f", "\"a\\x7f\"", characters},
  };
}

TEST_F(ValidationTest, BadNameIsRefusedByEveryCall) {
  for (const BadName& bad : bad_names()) {
    const std::string& name = bad.name;  // clang 14 captures no structured binding
    const std::vector<std::function<void()>> calls{
        [&] { (void)client.acquire(name); },
        [&] { (void)client.acquire(name, {.on_conflict = OnConflict::force}); },
        [&] { (void)client.status(name); },
        [&] { (void)client.list(name); },
        [&] { client.visit(name, [](const LockRecord&) { return true; }); },
        [&] { (void)client.cleanup_stale(name); },
        [&] { (void)client.force_release(name); },
        [&] { const Mutex mutex(client, name); },
    };
    for (const auto& call : calls) {
      const std::string message = message_of<InvalidArgument>(call);
      EXPECT_TRUE(contains(message, "lock name")) << message;
      EXPECT_TRUE(contains(message, bad.shown)) << message;
      EXPECT_TRUE(contains(message, bad.allowed)) << message;
      EXPECT_LT(message.size(), 300U) << "a long value is cut";
    }
  }
}

TEST_F(ValidationTest, NamesAtTheLimitAreAccepted) {
  for (const std::string& name : {std::string("n"), std::string(512, 'n'), std::string(" ~!\"\\:/"),
                                  std::string("\xC3\xBC")}) {
    EXPECT_THROW((void)client.status(name), Unavailable);
    ++sent;
  }
}

TEST_F(ValidationTest, TtlOutOfRange) {
  for (const milliseconds ttl :
       {milliseconds::min(), -1ms, 0ms, 19ms, milliseconds{24h} + 1ms, milliseconds::max()}) {
    const std::string message = refusal_of_options({.ttl = ttl});
    EXPECT_TRUE(
        contains(message, "ttl must be 20 ms to 24 h, got " + std::to_string(ttl.count()) + " ms"))
        << message;
  }
  expect_accepted({.ttl = 20ms});
  expect_accepted({.ttl = 24h});
}

TEST_F(ValidationTest, WaitOutOfRange) {
  for (const milliseconds wait :
       {milliseconds::min(), -1ms, milliseconds{8760h} + 1ms, milliseconds::max() - 1ms}) {
    const std::string message = refusal_of_options({.wait = wait});
    EXPECT_TRUE(contains(
        message, "wait must be 0 ms to 365 days, got " + std::to_string(wait.count()) + " ms"))
        << message;
  }
  expect_accepted({.wait = 0ms});
  expect_accepted({.wait = 8760h});
  expect_accepted({.wait = LockOptions::forever});
}

TEST_F(ValidationTest, MaxHoldOutOfRange) {
  for (const milliseconds hold : {-1ms, 1ms, 19ms, milliseconds{8760h} + 1ms}) {
    const std::string message = refusal_of_options({.max_hold = hold});
    EXPECT_TRUE(contains(
        message, "max_hold must be 20 ms to 365 days, got " + std::to_string(hold.count()) + " ms"))
        << message;
  }
  expect_accepted({.max_hold = 0ms});
  expect_accepted({.max_hold = 20ms});
}

TEST_F(ValidationTest, HeartbeatEveryOutOfRange) {
  for (const milliseconds every : {milliseconds::min(), -1ms, 501ms, milliseconds::max()}) {
    const std::string message = refusal_of_options({.ttl = 1s, .heartbeat_every = every});
    EXPECT_TRUE(contains(message, "heartbeat_every must be 1 ms to 500 ms, got " +
                                      std::to_string(every.count()) + " ms"))
        << message;
  }
  expect_accepted({.ttl = 1s, .heartbeat_every = 0ms});
  expect_accepted({.ttl = 1s, .heartbeat_every = 1ms});
  expect_accepted({.ttl = 1s, .heartbeat_every = 500ms});
}

TEST_F(ValidationTest, PriorityOutOfRange) {
  for (const int priority : {std::numeric_limits<int>::min(), -101, 101}) {
    const std::string message = refusal_of_options({.priority = priority});
    EXPECT_TRUE(contains(message, "priority must be -100 to 100, got " + std::to_string(priority)))
        << message;
  }
  expect_accepted({.priority = -100});
  expect_accepted({.priority = 100});
}

TEST_F(ValidationTest, StealAfterOutOfRange) {
  for (const milliseconds after : {-1ms, 0ms, milliseconds{8760h} + 1ms}) {
    const std::string message = refusal_of_options({.steal_after = after});
    EXPECT_TRUE(contains(message, "steal_after must be 1 ms to 365 days, got " +
                                      std::to_string(after.count()) + " ms"))
        << message;
  }
  expect_accepted({.steal_after = 1ms});
}

TEST_F(ValidationTest, RetryPolicyOutOfRange) {
  const auto refusal = [&](RetryPolicy retry) { return refusal_of_options({.retry = retry}); };
  EXPECT_TRUE(contains(refusal({.retries = -1}), "retry.retries must be 0 to 1000000, got -1"));
  EXPECT_TRUE(contains(refusal({.retries = 1'000'001}), "got 1000001"));
  EXPECT_TRUE(contains(refusal({.first = 0ms}), "retry.first must be 1 ms to 365 days, got 0 ms"));
  EXPECT_TRUE(contains(refusal({.first = -1ms}), "got -1 ms"));
  EXPECT_TRUE(contains(refusal({.first = 50ms, .longest = 49ms}),
                       "retry.longest must be 50 ms to 365 days, got 49 ms"));
  EXPECT_TRUE(contains(refusal({.longest = 8761h}),
                       "retry.longest must be 100 ms to 365 days, got 8761 h"));
  EXPECT_TRUE(contains(refusal({.factor = 0.99}), "retry.factor must be 1 to 100, got 0.99"));
  EXPECT_TRUE(contains(refusal({.factor = 100.5}), "got 100.5"));
  EXPECT_TRUE(contains(refusal({.factor = std::nan("")}), "got nan"));
  EXPECT_TRUE(contains(refusal({.factor = std::numeric_limits<double>::infinity()}), "got inf"));
  expect_accepted({.retry = {.retries = 0, .first = 1ms, .factor = 1.0, .longest = 1ms}});
}

TEST_F(ValidationTest, MetadataThatIsNotUtf8IsNamed) {
  for (const std::string bad : {"\xff", "\xC3", "\xC0\x80", "\xED\xA0\x80"}) {
    const std::string in_value =
        refusal_of_options({.metadata = {{"good", "fine"}, {"job", "x" + bad}}});
    EXPECT_TRUE(contains(in_value, "metadata")) << in_value;
    EXPECT_TRUE(contains(in_value, "\"job\"")) << "which one? " << in_value;
    EXPECT_TRUE(contains(in_value, "UTF-8")) << in_value;
    const std::string in_key = refusal_of_options({.metadata = {{"job" + bad, "x"}}});
    EXPECT_TRUE(contains(in_key, "UTF-8")) << in_key;
  }
}

TEST_F(ValidationTest, MetadataTooLargeIsMeasured) {
  // {"k":"…"} has eight bytes besides the value.
  const std::string message = refusal_of_options({.metadata = {{"k", std::string(4089, 'x')}}});
  EXPECT_TRUE(contains(message, "got 4097")) << message;
  EXPECT_TRUE(contains(message, "at most 4096 bytes")) << message;
  EXPECT_LT(message.size(), 200U);
  expect_accepted({.metadata = {{"k", std::string(4088, 'x')}}});
}

TEST_F(ValidationTest, MutexRefusesItsOptionsWhenItIsMade) {
  const std::string message =
      message_of<InvalidArgument>([&] { const Mutex mutex(client, "name", {.ttl = 0ms}); });
  EXPECT_TRUE(contains(message, "got 0 ms")) << message;
}

TEST_F(ValidationTest, ClientOptionsOutOfRange) {
  for (const milliseconds keep : {-1ms, 0ms, 999ms, milliseconds{720h} + 1ms}) {
    const std::string range =
        " must be 1 s to 30 days, got " + std::to_string(keep.count()) + " ms";
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] { LockClient bad(link, {.keep_stale_records = keep}); }),
        "keep_stale_records" + range));
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] { LockClient bad(link, {.keep_counters = keep}); }),
        "keep_counters" + range));
  }
  EXPECT_TRUE(contains(message_of<InvalidArgument>(
                           [&] { LockClient bad(link, {.redis = {.command_timeout = 0ms}}); }),
                       "command_timeout must be 1 ms to 10 min, got 0 ms"));
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([] { LockClient bad(std::shared_ptr<RedisLink>{}); }), "null"));
  EXPECT_TRUE(contains(message_of<InvalidArgument>([] { LockClient bad("localhost"); }),
                       "the scheme is missing"));
  EXPECT_TRUE(contains(message_of<InvalidArgument>(
                           [] { LockClient bad("redis://h", {.redis = {.connections = 0}}); }),
                       "connections must be 1 to 256, got 0"));
}

}  // namespace
}  // namespace leasehold
