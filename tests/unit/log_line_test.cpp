// A log line can be read back without loss, whatever its values are.
#include "support/log_line.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/log_event.hpp"
#include "tests/support/kept_log.hpp"

namespace leasehold {
namespace {

TEST(LogLineTest, PlainValuesStandAsTheyAre) {
  const std::string worker = "runner_1_a-7";
  EXPECT_EQ(log_line("task lost", {{"id", 7}, {"version", std::uint64_t{3}}, {"worker", worker}}),
            "task lost id=7 version=3 worker=runner_1_a-7");
  EXPECT_EQ(log_line("stopped", {}), "stopped");
  EXPECT_EQ(log_line("n", {{"a", std::numeric_limits<std::int64_t>::min()},
                           {"b", std::numeric_limits<std::uint64_t>::max()}}),
            "n a=-9223372036854775808 b=18446744073709551615");
  for (const char* text : {"127.0.0.1:9180", "[::1]:80", "sqlite:/a/b.db", "a@b", "2nd", "-x"}) {
    EXPECT_EQ(log_value(text), text);
  }
}

TEST(LogLineTest, OtherValuesAreJsonStrings) {
  const struct {
    std::string text;
    std::string written;
  } cases[] = {
      {"", R"("")"},
      {"a b", R"("a b")"},
      {"a \"b\"", R"("a \"b\"")"},
      {"x state=dead", R"("x state=dead")"},
      {"a=b", R"("a=b")"},
      {"\\", R"("\\")"},
      {"a\nb\tc\r", R"("a\nb\tc\u000d")"},
      {std::string("\0\x1b\x7f", 3), R"("\u0000\u001b\u007f")"},
      {"größe", R"("größe")"},
      // What a terminal, or a reader of lines, takes for a control character or the end of a line.
      {"\u0080 \u009b2J \u0085 \u009f", R"("\u0080 \u009b2J \u0085 \u009f")"},
      {"a\u2028b\u2029", R"("a\u2028b\u2029")"},
      {"\u00a0 \u2027 \u202a \u1028", "\"\u00a0 \u2027 \u202a \u1028\""},
      // A text that looks like a number is told from one.
      {"42", R"("42")"},
      {"-1", R"("-1")"},
      {"-", R"("-")"},
  };
  for (const auto& [text, written] : cases) {
    EXPECT_EQ(log_value(text), written);
    EXPECT_EQ(nlohmann::json::parse(log_value(text)), text) << "something was lost";
  }
  EXPECT_EQ(log_value("a\xff"), R"("a?")");
}

using Fields = std::vector<std::pair<std::string, LoggedLine::Value>>;

TEST(LogLineTest, ALineIsReadBackWithoutLoss) {
  for (const std::string& text :
       {std::string("x"), std::string(), std::string("42"),
        std::string("x id=8 level=error \"q\" \\"), std::string("\" id=8 x=\""),
        std::string("a\nb\0c", 5), std::string("größe = …"),
        std::string("a\u0085b\u2028c\u2029d\u009b"), std::string("\\\" id=8"),
        std::string("[]{}'")}) {
    const std::string line =
        log_line("task lost, again", {{"id", 7}, {"worker", text}, {"token", UINT64_MAX}});
    const auto parsed = parse_log_line(line);
    ASSERT_TRUE(parsed) << line;
    EXPECT_EQ(parsed->event, "task lost, again");
    EXPECT_EQ(line.substr(0, parsed->fields_at), "task lost, again");
    EXPECT_EQ(
        parsed->fields,
        (Fields{{"id", std::int64_t{7}}, {"worker", text}, {"token", std::uint64_t{UINT64_MAX}}}))
        << line;
  }
  EXPECT_EQ(parse_log_line("stopped")->event, "stopped");
  EXPECT_TRUE(parse_log_line("stopped")->fields.empty());
}

TEST(LogLineTest, NothingElseIsTakenForPairs) {
  for (const char* line : {"",
                           "=",
                           "a=b",
                           " a=b",
                           "x a=",
                           "x a= b=c",
                           "x a=b c",
                           "x a=b  c=d",
                           "x a=b c=d ",
                           "x A=b",
                           "x a-b=c",
                           "x a=b a=c",
                           "x a=\"b",
                           "x a=\"b\"c",
                           "x a=\"b\" c",
                           "x a=b\"c\"",
                           "x a=\"\\q\"",
                           "x a=ü",
                           "x a=b,c",
                           "x \"a\" b=c",
                           "x\ny a=b",
                           "x a=1-2",
                           "x a=--1",
                           "x a=99999999999999999999",
                           "x error=\"relation \"t\" is missing\""}) {
    EXPECT_FALSE(parse_log_line(line)) << line;
  }
}

TEST(LogLineTest, LongValuesAreCutBetweenCharacters) {
  EXPECT_EQ(log_value(std::string(4096, 'x')), std::string(4096, 'x'));
  EXPECT_EQ(log_value(std::string(4097, 'x')), "\"" + std::string(4096, 'x') + "…\"");
  EXPECT_EQ(log_value(std::string(4095, 'x') + "üü"), "\"" + std::string(4095, 'x') + "…\"");
}

TEST(LogLineTest, BracesInValuesAreNoPlaceholders) {
  auto [logger, log] = testing::KeptLog::make();
  log_warn(*logger, "lock lost", {{"name", "a{}{0}%s"}});
  EXPECT_EQ(log->count(R"(lock lost name="a{}{0}%s")"), 1);
}

}  // namespace
}  // namespace leasehold
