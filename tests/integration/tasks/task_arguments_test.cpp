// Bad input is refused before anything is sent.
#include <gtest/gtest.h>

#include <string>

#include "tests/support/task_store.hpp"

namespace leasehold::testing {
namespace {

TEST(TaskArgumentsTest, BadInputIsRefusedBeforeAnythingIsSent) {
  // No server is there: what is refused has not been sent.
  TaskQueue queue{"postgresql://127.0.0.1:1/none"};
  const auto refused = [](const auto& call, const std::string& words) {
    try {
      call();
      ADD_FAILURE() << "accepted, expected: " << words;
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  const auto enqueue = [&](const NewTask& task, const std::string& words) {
    refused([&] { queue.enqueue(task); }, words);
  };
  enqueue({.type = ""}, "1 to 128 bytes, got 0");
  enqueue({.type = std::string(129, 'x')}, "1 to 128 bytes, got 129");
  enqueue({.type = "a\nb"}, "control characters");
  enqueue({.type = "a\u009b2Jb"}, "control characters, got \"a\\xc2\\x9b2Jb\"");
  enqueue({.type = "t", .unique_key = "a\u0085"}, "control characters");
  enqueue({.type = "\xff"}, "not UTF-8");
  enqueue({.type = "a\xff\x85"}, "not UTF-8");
  enqueue({.type = "t", .payload = "{"}, "\"{\" is not JSON");
  enqueue({.type = "t", .payload = ""}, "is not JSON");
  enqueue({.type = "t", .payload = std::string("1\0", 2)}, "is not JSON");
  enqueue({.type = "t", .payload = std::string("1\0garbage", 9)}, "is not JSON");
  enqueue({.type = "t", .payload = "\xef\xbb\xbf{}"}, "is not JSON");
  enqueue({.type = "t", .payload = std::string(1'048'576, ' ') + "1"},
          "at most 1048576 bytes, got 1048577");
  enqueue({.type = "t", .payload = std::string(501, '[') + std::string(501, ']')}, "got 501");
  enqueue({.type = "t", .priority = 1'000'001}, "1000001");
  enqueue({.type = "t", .delay = -1ms}, "-1 ms");
  enqueue({.type = "t", .max_attempts = 0}, "max_attempts must be 1 to 1000000, got 0");
  enqueue({.type = "t", .unique_key = std::string(513, 'k')}, "513");
  refused([&] { queue.lease({}); }, "number of types must be 1 to 1000, got 0");
  refused([&] { queue.lease({.types = {"a", "a"}}); }, "given twice");
  refused([&] { queue.lease({.types = {"a"}, .limit = 0}); }, "limit must be 1 to 10000, got 0");
  refused([&] { queue.lease({.types = {"a"}, .duration = 0ms}); }, "0 ms");
  refused([&] { queue.lease({.types = {"a"}, .duration = -5s}); },
          "lease duration must be 100 ms to 24 h, got -5 s");
  refused([&] { queue.list({.limit = 0}); }, "limit must be 1 to 10000, got 0");
  refused([&] { TaskQueue{"mysql://x"}; }, "\"mysql\"");
  refused([&] { TaskQueue{"mysql://x"}; }, "sqlite:path");
  refused([&] { TaskQueue{""}; }, "must begin with postgresql://");
  refused([&] { TaskQueue{"sqlite:"}; }, "the path is missing");
  refused([&] { TaskQueue{"sqlite::memory:a b"}; }, "letters, digits");
  refused([&] { (TaskQueue{"sqlite::memory:", {.sqlite = {.timeout = 0ms}}}); }, "0 ms");
  refused([&] { TaskQueue{"postgresql://h/x?no_such_option=1"}; }, "malformed");
  refused([&] { (TaskQueue{"postgresql://h/x", {.postgres = {.schema = "a\"b"}}}); }, "schema");
  refused(
      [&] {
        (TaskQueue{"postgresql://h/x", {.postgres = {.connections = 0}}});
      },
      "connections must be 1 to 1000, got 0");
  refused([&] { (TaskQueue{"postgresql://h/x", {.backoff = {.first = 0ms}}}); }, "backoff.first");
  refused(
      [&] {
        (Recovery{queue, {.max_crashes = 0}});
      },
      "max_crashes must be 1 to 1000000, got 0");
  refused([&] { migrate("postgresql://h/x", {.schema = ""}); }, "schema");
  EXPECT_THROW(queue.enqueue({.type = "\u00a0ü\u2028"}), Unavailable);
  EXPECT_THROW(queue.enqueue({.type = "t"}), Unavailable) << "and what is right is sent";
}

TEST(TaskArgumentsTest, AMalformedUriDoesNotShowItsPassword) {
  try {
    TaskQueue{"postgresql://user:secret@host/x?no_such_option=1"};
    FAIL() << "accepted";
  } catch (const InvalidArgument& error) {
    EXPECT_EQ(std::string(error.what()).find("secret"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace leasehold::testing
