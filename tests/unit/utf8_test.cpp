#include "support/utf8.hpp"

#include <gtest/gtest.h>

namespace leasehold {
namespace {

TEST(Utf8Test, KnowsWhatIsUtf8) {
  for (const auto* good : {"", "abc", "é", "€", "😀", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(is_utf8(good)) << good;
  }
  for (const auto* bad :
       {"\xff", "\x80", "\xc3", "\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
        "\xf0\x80\x80\x80", "a\xe2\x82", "\xf5\x80\x80\x80"}) {
    EXPECT_FALSE(is_utf8(bad)) << bad;
  }
}

TEST(Utf8Test, ReplacesWhatIsNot) {
  EXPECT_EQ(replace_invalid_utf8("a\xff€\xe2\x82"), "a?€??");
  EXPECT_EQ(replace_invalid_utf8(std::string("a\0b", 3)), "a?b");
}

TEST(Utf8Test, CutsBetweenCharacters) {
  EXPECT_EQ(utf8_prefix("a€b", 4), "a€");
  EXPECT_EQ(utf8_prefix("a€b", 3), "a");
  EXPECT_EQ(utf8_prefix("a€b", 5), "a€b");
}

}  // namespace
}  // namespace leasehold
