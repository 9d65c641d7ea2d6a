// B5: how deep JSON is nested is known before any parser sees it.
#include "support/json_depth.hpp"

#include <gtest/gtest.h>

#include <string>

#include "leasehold/errors.hpp"
#include "tasks/validation.hpp"
#include "tests/support/message_of.hpp"

namespace leasehold {
namespace {

using testing::contains;
using testing::message_of;

constexpr std::size_t enough = 100 * 1024 * 1024;

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(JsonDepthTest, CountsArraysAndObjectsOutsideOfStrings) {
  EXPECT_EQ(json_depth(""), 0u);
  EXPECT_EQ(json_depth("7"), 0u);
  EXPECT_EQ(json_depth("[]"), 1u);
  EXPECT_EQ(json_depth(R"({"a":[{}],"b":{}})"), 3u);
  EXPECT_EQ(json_depth(R"("[[[[")"), 0u);
  EXPECT_EQ(json_depth(R"(["\"[[[","\\",[]])"), 2u);
  EXPECT_EQ(json_depth(nested(200'000)), 200'000u);
}

TEST(JsonDepthTest, TextThatIsNotJsonIsCountedToo) {
  EXPECT_EQ(json_depth("]]]]["), 1u) << "closing what was never opened does not wrap around";
  EXPECT_EQ(json_depth("\"[["), 0u);
  EXPECT_EQ(json_depth("\"\\"), 0u) << "an escape at the end";
  EXPECT_EQ(json_depth(std::string(64 * 1024 * 1024, '[')), 64u * 1024 * 1024);
}

TEST(JsonDepthTest, WhatIsNestedTooDeepIsRefusedBeforeItIsParsed) {
  check_json("payload", nested(500), enough);
  EXPECT_EQ(message_of<InvalidArgument>([] { check_json("payload", nested(501), enough); }),
            "payload must be nested at most 500 deep, got 501");
  EXPECT_EQ(message_of<InvalidArgument>([] { check_json("payload", nested(200'000), enough); }),
            "payload must be nested at most 500 deep, got 200000");
  // It is not JSON either, but nobody has to find that out.
  EXPECT_EQ(message_of<InvalidArgument>(
                [] { check_json("payload", std::string(64 * 1024 * 1024, '['), enough); }),
            "payload must be nested at most 500 deep, got 67108864");
  EXPECT_TRUE(contains(message_of<InvalidArgument>([] { check_json("payload", "]", enough); }),
                       "is not JSON"));
}

}  // namespace
}  // namespace leasehold
