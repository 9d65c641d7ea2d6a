// leasehold on a terminal: colours, questions and the live view. script(1) makes the terminal.

#include "harness/process.hpp"
#include "tests/support/cli_fixture.hpp"
#include "tests/support/leaseholdd.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

/// A run of leasehold on a terminal of its own.
class OnTerminal {
 public:
  OnTerminal(const std::string& command_line, std::map<std::string, std::string> env)
      : process_({.argv = without_our_environment(
                      "script",
                      {"--quiet", "--return", "--command",
                       std::string(LEASEHOLD_CLI) + " " + command_line, "/dev/null"},
                      with_term(std::move(env))),
                  .err = Output::discard()}) {}

  /// Reads until this text has come.
  ::testing::AssertionResult sees(const std::string& text) {
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (std::chrono::steady_clock::now() < deadline) {
      if (contains(seen_, text)) return ::testing::AssertionSuccess();
      seen_ += process_.read_rest(20ms);
    }
    return ::testing::AssertionFailure() << "no \"" << text << "\" in: " << seen_;
  }

  void type(const std::string& line) { process_.write_line(line); }
  const std::string& seen() const { return seen_; }

  int wait() {
    seen_ += process_.read_rest(60s);
    const auto status = process_.wait(60s);
    return status ? status->code : -1;
  }

 private:
  static std::map<std::string, std::string> with_term(std::map<std::string, std::string> env) {
    env.emplace("TERM", "xterm");
    env.emplace("NO_COLOR", "");
    return env;
  }

  Process process_;
  std::string seen_;
};

class CliTerminalTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    migrate(task_uri);
    TaskQueue{task_uri}.enqueue({.type = "mail"});
  }
};

TEST_P(CliTerminalTest, ColoursAreForTerminalsAndNotForThoseWhoDoNotWantThem) {
  OnTerminal coloured("tasks list", environment());
  EXPECT_EQ(coloured.wait(), 0);
  EXPECT_TRUE(contains(coloured.seen(), "\x1b[1m")) << coloured.seen();
  auto env = environment();
  env["NO_COLOR"] = "1";
  OnTerminal plain("tasks list", env);
  EXPECT_EQ(plain.wait(), 0);
  EXPECT_FALSE(contains(plain.seen(), "\x1b")) << plain.seen();
  EXPECT_TRUE(contains(plain.seen(), "mail")) << plain.seen();
}

TEST_P(CliTerminalTest, AQuestionIsAskedAndNoIsTheDefault) {
  for (const char* answer : {"n", "", "nonsense"}) {
    OnTerminal no("tasks cancel 1", environment());
    EXPECT_TRUE(no.sees("Cancel 1 task? [y/N]"));
    no.type(answer);
    EXPECT_EQ(no.wait(), failed) << no.seen();
    EXPECT_TRUE(contains(no.seen(), "nothing was done")) << no.seen();
    EXPECT_EQ(TaskQueue{task_uri}.get({1})->state, TaskState::pending);
  }
  OnTerminal yes("tasks cancel 1", environment());
  EXPECT_TRUE(yes.sees("[y/N]"));
  yes.type("y");
  EXPECT_EQ(yes.wait(), 0) << yes.seen();
  EXPECT_EQ(TaskQueue{task_uri}.get({1})->state, TaskState::cancelled);
}

TEST_P(CliTerminalTest, TopIsRedrawnHeedsKeysAndPutsTheTerminalBack) {
  OnTerminal top("top --interval 100ms", environment());
  EXPECT_TRUE(top.sees("\x1b[?1049h"));
  EXPECT_TRUE(top.sees("\x1b[?7l")) << "a long line would take two";
  EXPECT_TRUE(top.sees("sorted by name"));
  EXPECT_TRUE(top.sees("mail"));
  top.type("s");
  EXPECT_TRUE(top.sees("sorted by number"));
  TaskQueue{task_uri}.enqueue({.type = "fresh"});
  EXPECT_TRUE(top.sees("fresh"));
  top.type("q");
  EXPECT_EQ(top.wait(), 0) << top.seen();
  EXPECT_TRUE(contains(top.seen(), "\x1b[?7h")) << top.seen();
  EXPECT_TRUE(contains(top.seen(), "\x1b[?1049l")) << top.seen();
}

TEST_P(CliTerminalTest, WithoutATerminalTopPrintsOnce) {
  const CliResult once = cli({"top"});
  EXPECT_EQ(once.code, 0) << once;
  EXPECT_TRUE(contains(once.out, "mail")) << once;
  EXPECT_FALSE(contains(once.out, "\x1b")) << once;
}

TEST(CliTerminalDemoTest, TheDemoIsRedrawnInPlace) {
  OnTerminal demo("demo --workers 2 --tasks 50 --seconds 1", {});
  EXPECT_EQ(demo.wait(), 0) << demo.seen();
  EXPECT_TRUE(contains(demo.seen(), "\x1b[3A")) << demo.seen();
  EXPECT_TRUE(contains(demo.seen(), "50 of 50")) << demo.seen();
  EXPECT_TRUE(contains(demo.seen(), "Everything as promised")) << demo.seen();
}

TEST(CliTerminalDemoTest, NoLineThatIsRedrawnIsWrapped) {
  OnTerminal demo("version; stty cols 40; " + std::string(LEASEHOLD_CLI) +
                      " demo --workers 2 --tasks 50 --seconds 1",
                  {{"NO_COLOR", "1"}});
  EXPECT_EQ(demo.wait(), 0) << demo.seen();
  const std::string up = "\x1b[3A";
  const auto first = demo.seen().find(up);
  ASSERT_NE(first, std::string::npos) << demo.seen();
  const auto redrawn = demo.seen().substr(first, demo.seen().find("The ledger") - first);
  std::istringstream lines(redrawn);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(up)) line.erase(0, up.size());
    std::size_t columns = 0;
    for (const char c : line.substr(0, line.find("\x1b[K"))) {
      columns += c != '\r' && (static_cast<unsigned char>(c) & 0xc0U) != 0x80 ? 1 : 0;
    }
    EXPECT_LT(columns, 40u) << line;
  }
}

INSTANTIATE_TEST_SUITE_P(On, CliTerminalTest, ::testing::Values(On::servers, On::sqlite),
                         name_of_store);

}  // namespace
}  // namespace leasehold::testing
