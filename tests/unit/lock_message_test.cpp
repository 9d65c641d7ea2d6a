#include "locks/lock_message.hpp"

#include <gtest/gtest.h>

namespace leasehold {
namespace {

using Type = LockMessage::Type;

TEST(LockMessageTest, TextIsReadAsItWasWritten) {
  for (const Type type :
       {Type::granted, Type::taken, Type::vanished, Type::awaited, Type::crowded}) {
    const auto read = parse_lock_message(to_text({type, "owner", "a name"}));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->type, type);
    EXPECT_EQ(read->owner, "owner");
    EXPECT_EQ(read->name, "a name");
  }
  EXPECT_EQ(to_text({Type::granted, "abc", "n"}), "granted abc n");
}

TEST(LockMessageTest, OtherTextIsNotAMessage) {
  for (const char* text :
       {"", "granted", "granted abc", "grante d n", "granteds abc n", "hello abc n", " abc n"}) {
    EXPECT_FALSE(parse_lock_message(text)) << text;
  }
}

}  // namespace
}  // namespace leasehold
