#include "locks/lock_message.hpp"

#include <gtest/gtest.h>

namespace leasehold {
namespace {

using Type = LockMessage::Type;

TEST(LockMessageTest, TextIsReadAsItWasWritten) {
  for (const Type type : {Type::granted, Type::taken, Type::vanished, Type::awaited}) {
    const auto read = parse_lock_message(to_text({type, "owner"}));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->type, type);
    EXPECT_EQ(read->owner, "owner");
  }
  EXPECT_EQ(to_text({Type::granted, "abc"}), "granted abc");
}

TEST(LockMessageTest, OtherTextIsNotAMessage) {
  for (const char* text : {"", "granted", "grante d", "granteds abc", "hello abc", " abc"}) {
    EXPECT_FALSE(parse_lock_message(text)) << text;
  }
}

}  // namespace
}  // namespace leasehold
