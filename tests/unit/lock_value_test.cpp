#include "redis/lock_value.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "redis/lock_replies.hpp"

namespace leasehold {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::system_clock;

const redis::ServerView plain_view{.pttl = 5s, .counter = {3}, .now = system_clock::time_point{1h}};

std::string record_with(const std::string& number) {
  return R"({"runner":"r","pid":)" + number + R"(,"host":"h","platform":"p","renewals":)" + number +
         R"(,"ttl":)" + number + R"(,"held":)" + number + R"(,"linger":)" + number +
         R"(,"token":)" + number + "}";
}

const std::string waiter_start = "client x 0 5 1000 3 " + std::string(redis::owner_size, 'a');

TEST(LockValueTest, WhatAnotherProgramWroteIsARecordWithoutARunner) {
  for (const std::string& value :
       {std::string("x"), std::string(40, 'x'), std::string(redis::owner_size, 'a') + "=[]",
        std::string(redis::owner_size, 'a') + R"(={"runner":1})"}) {
    const auto lock = redis::read_lock_value("name", value, plain_view);
    EXPECT_EQ(lock.record.runner, "") << value;
    EXPECT_EQ(lock.record.name, "name") << value;
  }
}

TEST(LockValueTest, SharedHolderThatCannotBeReadIsARecordWithoutARunner) {
  for (const std::string& value :
       {std::string{}, std::string("="), std::string("=x"), std::string("={}"),
        std::string(R"(={"runner":7})"), "=" + record_with("\"x\"")}) {
    const auto record = redis::read_shared_holder("name", value, 1h + 5s, plain_view);
    EXPECT_EQ(record.runner, "") << value;
    EXPECT_EQ(record.name, "name") << value;
    EXPECT_EQ(record.kind, LockKind::shared) << value;
    EXPECT_EQ(record.remaining, 5s) << value;
  }
}

TEST(LockValueTest, WaiterThatCannotBeReadHasNoRunner) {
  for (const std::string& text :
       {std::string{}, std::string("client x"), std::string("client x 0 many 1000 3 a=b"),
        std::string("client x 0 99999999999 99999999999999999999 3"), waiter_start,
        waiter_start + "=", waiter_start + "=[1]", waiter_start + R"(={"runner":"r"})"}) {
    EXPECT_EQ(redis::read_waiter(text).runner, "") << text;
  }
}

TEST(LockValueTest, WaiterIsRead) {
  const auto waiter = redis::read_waiter(waiter_start + R"(={"runner":"r","pid":7,"host":"h"})");
  EXPECT_EQ(waiter.runner, "r");
  EXPECT_EQ(waiter.pid, 7);
  EXPECT_EQ(waiter.kind, LockKind::exclusive);
  EXPECT_EQ(waiter.priority, 5);
  EXPECT_EQ(waiter.since, system_clock::time_point{1s});
}

// UndefinedBehaviorSanitizer sees the overflows that these would be.
TEST(LockValueTest, NumbersWithoutBoundsOverflowNothing) {
  const auto least = milliseconds::min();
  const auto most = milliseconds::max();
  for (const char* number :
       {"9223372036854775807", "-9223372036854775808", "1e300", "-1e300", "18446744073709551615"}) {
    for (const milliseconds time : {least, milliseconds{-1}, 0ms, most}) {
      const redis::ServerView view{.pttl = time, .counter = {}, .now = plain_view.now};
      const auto lock = redis::read_lock_value(
          "name", std::string(redis::owner_size, 'a') + "=" + record_with(number), view);
      EXPECT_EQ(lock.record.runner, "r");
      EXPECT_GE(lock.record.remaining, 0ms);
      EXPECT_GE(lock.record.heartbeat_age, 0ms);
      EXPECT_LE(lock.record.heartbeat_at, view.now);
      const auto holder = redis::read_shared_holder("name", "=" + record_with(number), time, view);
      EXPECT_GE(holder.remaining, 0ms);
      EXPECT_LE(holder.heartbeat_at, view.now);
    }
  }
  EXPECT_LE(redis::read_lock_value("name", "x", {.pttl = most, .counter = {}, .now = {}})
                .record.remaining,
            24h * 366 * 100);
}

TEST(LockValueTest, TimeOfTheServerWithoutBoundsOverflowsNothing) {
  const auto number = [](long long value) {
    return RedisReply{.type = RedisReply::Type::integer, .integer = value};
  };
  const auto most = std::numeric_limits<long long>::max();
  EXPECT_GT(redis::to_time(number(most), number(most)), system_clock::time_point{});
  EXPECT_EQ(redis::to_time(number(-5), number(-5)), system_clock::time_point{});
  EXPECT_EQ(redis::to_time(number(2), number(7)), system_clock::time_point{2s + 7us});
}

}  // namespace
}  // namespace leasehold
