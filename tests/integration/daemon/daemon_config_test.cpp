// How leaseholdd is told what to do, and how it says that it was told wrong. No server is needed.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "harness/free_port.hpp"
#include "tests/support/leaseholdd.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

class DaemonConfigTest : public ::testing::Test {
 protected:
  using Env = std::map<std::string, std::string>;

  static Finished leaseholdd(std::vector<std::string> arguments, Env env = {}) {
    return run_leaseholdd(LEASEHOLDD, std::move(arguments), std::move(env));
  }

  /// What --check-config says.
  static std::string check(std::vector<std::string> arguments, Env env = {}) {
    arguments.emplace_back("--check-config");
    const Finished done = leaseholdd(std::move(arguments), std::move(env));
    EXPECT_EQ(done.status.code, 0) << done.output;
    return done.output;
  }

  /// What it says before it exits with 2.
  static std::string refusal(std::vector<std::string> arguments, Env env = {}) {
    const Finished done = leaseholdd(std::move(arguments), std::move(env));
    EXPECT_EQ(done.status.code, 2) << done.output;
    EXPECT_TRUE(contains(done.output, "leaseholdd: ")) << done.output;
    EXPECT_TRUE(contains(done.output, "Try leaseholdd --help")) << done.output;
    return done.output;
  }

  /// The value of a key in what --check-config says, of a queue if one is given.
  static std::string value(const std::string& text, const std::string& key,
                           const std::string& queue = "") {
    const auto section = queue.empty() ? 0 : text.find("[queue " + queue + "]");
    const auto at = text.find("\n" + key + " = ", section);
    if (section == text.npos || (at == text.npos && !text.starts_with(key + " = "))) return "none";
    const auto begin = text.find(" = ", at == text.npos ? 0 : at) + 3;
    return text.substr(begin, text.find_first_of(" \n", begin) - begin);
  }

  std::string file(const std::string& text, const std::string& name = "leaseholdd.conf") const {
    const auto path = dir_.path() / name;
    std::ofstream(path) << text;
    return path.string();
  }

  TempDir dir_;
};

const std::string db = "postgresql://localhost/app";

TEST_F(DaemonConfigTest, HelpAndVersionSayWhatTheyShould) {
  const Finished help = leaseholdd({"--help"});
  EXPECT_EQ(help.status.code, 0);
  for (const auto* part :
       {"--round-interval", "Examples:", "Exit codes:", "LEASEHOLD_", "SIGHUP"}) {
    EXPECT_TRUE(contains(help.output, part)) << part << " is missing in:\n" << help.output;
  }
  const Finished version = leaseholdd({"--version"});
  EXPECT_EQ(version.status.code, 0);
  EXPECT_TRUE(version.output.starts_with("leaseholdd ")) << version.output;
}

TEST_F(DaemonConfigTest, EveryDefaultIsShown) {
  const std::string text = check({"--database", db});
  EXPECT_EQ(value(text, "listen"), "127.0.0.1:9464") << "on loopback";
  EXPECT_EQ(value(text, "round-interval"), "5s");
  EXPECT_EQ(value(text, "retain-dead"), "forever");
  EXPECT_TRUE(contains(text, "[queue leasehold]")) << "one queue, named like its schema";
  EXPECT_TRUE(contains(text, "# default"));
}

TEST_F(DaemonConfigTest, FlagsGoBeforeTheEnvironmentThatBeforeTheFileThatBeforeTheDefaults) {
  const std::string path =
      file("database = " + db + "\nround-interval = 1s\nmax-crashes = 7\nmax-types = 8\n");
  const Env env{{"LEASEHOLD_ROUND_INTERVAL", "2s"}, {"LEASEHOLD_MAX_CRASHES", "9"}};
  const std::string text = check({"--config", path, "--round-interval", "3s"}, env);
  EXPECT_EQ(value(text, "round-interval"), "3s") << text;
  EXPECT_EQ(value(text, "max-crashes"), "9") << text;
  EXPECT_EQ(value(text, "max-types"), "8") << text;
  EXPECT_EQ(value(text, "count-limit"), "10000") << text;
  EXPECT_TRUE(contains(text, "# --round-interval"));
  EXPECT_TRUE(contains(text, "# LEASEHOLD_MAX_CRASHES"));
  EXPECT_TRUE(contains(text, "# " + path + ":4")) << "the line is named";
}

TEST_F(DaemonConfigTest, TheConfigFileCanBeNamedByTheEnvironmentAndByAFlagWhichWins) {
  const std::string one = file("database = " + db + "\nmax-crashes = 1\n", "one");
  const std::string two = file("database = " + db + "\nmax-crashes = 2\n", "two");
  EXPECT_EQ(value(check({}, {{"LEASEHOLD_CONFIG", one}}), "max-crashes"), "1");
  EXPECT_EQ(value(check({"--config", two}, {{"LEASEHOLD_CONFIG", one}}), "max-crashes"), "2");
}

TEST_F(DaemonConfigTest, QueuesComeFromAllSourcesAndTheirOwnSettingsGoFirst) {
  const std::string path = file(
      "# general\n"
      "database = \"" +
      db +
      "\"   # with a comment\n"
      "retain-dead = 9d\n"
      "\n"
      "[queue orders]\n"
      "schema = orders\n"
      "round-interval = 1s\n"
      "[queue mail]   # another comment\n"
      "schema=mail\n");
  const std::string text =
      check({"--config", path, "--round-interval", "3s", "--queue", "extra schema=extra", "--queue",
             "mail max-crashes=5"},
            {{"LEASEHOLD_QUEUES", "a schema=a; b schema=b database=\"host=h dbname=d\""}});
  EXPECT_EQ(value(text, "round-interval", "orders"), "1s") << "its own goes before a flag for all";
  EXPECT_EQ(value(text, "round-interval", "mail"), "3s");
  EXPECT_EQ(value(text, "schema", "mail"), "mail");
  EXPECT_EQ(value(text, "max-crashes", "mail"), "5");
  EXPECT_EQ(value(text, "schema", "extra"), "extra");
  EXPECT_EQ(value(text, "schema", "a"), "a");
  EXPECT_EQ(value(text, "database", "b"), "postgresql://h:5432/d");
  EXPECT_EQ(value(text, "retain-dead", "orders"), "9d");
}

TEST_F(DaemonConfigTest, AnEmptyVariableIsAsGoodAsNone) {
  EXPECT_EQ(value(check({"--database", db}, {{"LEASEHOLD_MAX_CRASHES", ""}}), "max-crashes"), "3");
}

TEST_F(DaemonConfigTest, UnknownKeysAreErrorsThatNameTheKeyAndTheAllowedOnes) {
  std::string text = refusal({"--config", file("database = x\n\nrond-interval = 5s\n")});
  EXPECT_TRUE(contains(text, "leaseholdd.conf:3")) << text;
  EXPECT_TRUE(contains(text, "unknown key \"rond-interval\"")) << text;
  EXPECT_TRUE(contains(text, "round-interval")) << text;

  text = refusal({"--config", file("[queue a]\nlisten = 127.0.0.1:1\n")});
  EXPECT_TRUE(contains(text, "\"listen\" is not a setting of a queue; those are database")) << text;

  text = refusal({"--rond-interval", "5s"});
  EXPECT_TRUE(contains(text, "unknown flag \"--rond-interval\"")) << text;
  EXPECT_TRUE(contains(text, "--round-interval")) << text;

  text = refusal({"--queue", "a schema=b colour=red"});
  EXPECT_TRUE(contains(text, "\"colour\" is not a setting of a queue")) << text;

  text = refusal({"stray"});
  EXPECT_TRUE(contains(text, "an argument belongs to no flag")) << text;
}

TEST_F(DaemonConfigTest, AnUnknownVariableIsIgnoredAloud) {
  // No error: Kubernetes makes such variables for a service that is called leasehold.
  const Finished done = leaseholdd({"--database", "postgresql://127.0.0.1:1/x", "--once"},
                                   {{"LEASEHOLD_ROUNDINTERVAL", "1s"}});
  EXPECT_EQ(done.status.code, 1) << "nobody is there";
  EXPECT_TRUE(
      contains(done.output, "environment variable ignored variable=LEASEHOLD_ROUNDINTERVAL"))
      << done.output;
}

struct BadValue {
  std::string key;
  std::string value;
  std::string allowed;
};

class DaemonBadValueTest : public DaemonConfigTest,
                           public ::testing::WithParamInterface<BadValue> {};

TEST_P(DaemonBadValueTest, IsRefusedWithTheValueAndWhatIsAllowed) {
  const std::string& key = GetParam().key;
  const std::string& bad = GetParam().value;
  const std::string& allowed = GetParam().allowed;
  const auto expect = [&](const std::string& text, const std::string& source) {
    EXPECT_TRUE(contains(text, source)) << text;
    EXPECT_TRUE(contains(text, key)) << text;
    EXPECT_TRUE(contains(text, "\"" + bad + "\"")) << text;
    EXPECT_TRUE(contains(text, allowed)) << text;
  };
  std::string variable = "LEASEHOLD_";
  for (const char c : key) variable += c == '-' ? '_' : static_cast<char>(std::toupper(c));
  const std::string path = file("database = " + db + "\n" + key + " = \"" + bad + "\"\n");
  expect(refusal({"--config", path, "--check-config"}), "leaseholdd.conf:2");
  if (bad.empty()) return;  // as good as none
  expect(refusal({"--database", db, "--" + key + "=" + bad, "--check-config"}), "--" + key);
  expect(refusal({"--database", db, "--check-config"}, {{variable, bad}}), variable);
}

INSTANTIATE_TEST_SUITE_P(
    , DaemonBadValueTest,
    ::testing::Values(BadValue{"round-interval", "5", "must be 50ms to 1h"},
                      BadValue{"round-interval", "49ms", "written like 500ms, 5s, 2m, 1h or 7d"},
                      BadValue{"round-interval", "2h", "must be 50ms to 1h"},
                      BadValue{"round-interval", "-5s", "must be 50ms to 1h"},
                      BadValue{"round-interval", "5 s", "must be 50ms to 1h"},
                      BadValue{"round-interval", "99999999999999999999s", "must be 50ms to 1h"},
                      BadValue{"round-interval", "9223372036854775807h", "must be 50ms to 1h"},
                      BadValue{"retain-dead", "never", " or forever, got"},
                      BadValue{"max-round-age", "soon", " or auto, got"},
                      BadValue{"max-crashes", "0", "must be 1 to 1000000"},
                      BadValue{"max-crashes", "three", "must be 1 to 1000000"},
                      BadValue{"max-crashes", "3.5", "must be 1 to 1000000"},
                      BadValue{"count-limit", "0", "must be 1 to"},
                      BadValue{"max-types", "-1", "must be 0 to 10000"},
                      BadValue{"connect-timeout", "1s", "must be 2s to 1h"},
                      BadValue{"shutdown-timeout", "2h", "must be 0ms to 1h"},
                      BadValue{"schema", "1a", "must be a letter or _"},
                      BadValue{"schema", "", "must be a letter or _"},
                      BadValue{"log-format", "xml", "must be text or json"},
                      BadValue{"log-level", "loud", "must be debug, info, warn or error"},
                      BadValue{"listen", "9464", "must be HOST:PORT"},
                      BadValue{"listen", "127.0.0.1:65536", "must be HOST:PORT"},
                      BadValue{"listen", "::1:9464", "must be HOST:PORT, [IPV6]:PORT"},
                      BadValue{"listen", ":9464", "must be HOST:PORT"}));

TEST_F(DaemonConfigTest, WhatIsWrongWithAQueueIsSaidWithItsName) {
  EXPECT_TRUE(contains(refusal({}), "no database")) << "nothing is guessed";
  std::string text = refusal({"--database", db, "--queue", "mail schema=a-b"});
  EXPECT_TRUE(contains(text,
                       "--queue: schema must be a letter or _, then letters, digits or _, 63 in "
                       "all at most, got \"a-b\""))
      << text;
  text = refusal({"--database", "mysql://x/y"});
  EXPECT_TRUE(contains(text, "queue leasehold: ") && contains(text, "postgresql://")) << text;
  text = refusal({"--database", db, "--queue", "a", "--queue", "b"});
  EXPECT_TRUE(contains(text, "queues a and b are the same")) << text;
  text = refusal({"--database", db, "--queue", "a/b"});
  EXPECT_TRUE(
      contains(text, "the name of a queue must be 1 to 63 letters, digits, -, _ or ., got \"a/b\""))
      << text;
  text = refusal({"--database", db, "--queue", "a x"});
  EXPECT_TRUE(contains(text, "must be NAME key=value")) << text;
  text = refusal({"--database", db, "--queue", "a schema=b", "--queue", "a schema=c"});
  EXPECT_TRUE(contains(text, "queue a is defined twice")) << text;
  text = refusal({"--database", db, "--redis", "http://x"});
  EXPECT_TRUE(contains(text, "--redis: redis: ")) << text;
}

TEST_F(DaemonConfigTest, BrokenFilesAreRefusedWithTheLine) {
  struct Case {
    std::string text, complaint;
  };
  for (const Case& c : std::vector<Case>{
           {"x\n", ":1: a line must be key = value or [queue NAME]"},
           {"\n\n[queues a]\n", ":3: a section must be [queue NAME], got \"[queues a]\""},
           {"[queue a b]\n",
            ":1: the name of a queue must be 1 to 63 letters, digits, -, _ or ., got \"a b\""},
           {"[queue ]\n",
            ":1: the name of a queue must be 1 to 63 letters, digits, -, _ or ., got \"\""},
           {"[queue a]\n[queue a]\n", ":2: queue a is defined twice"},
           {"schema = a\nschema = b\n", ":2: \"schema\" is given twice"},
           {"schema = \"a\n", ":1: the closing quotation mark is missing"},
           {"schema = \"a\" b\n", ":1: only a comment may follow"},
       }) {
    const std::string text = refusal({"--config", file(c.text)});
    EXPECT_TRUE(contains(text, "leaseholdd.conf" + c.complaint)) << c.text << text;
  }
  EXPECT_TRUE(contains(refusal({"--config", "/nowhere/x.conf"}),
                       "cannot read the config file /nowhere/x.conf: No such file"));
  EXPECT_TRUE(contains(refusal({"--config", dir_.path().string()}), "cannot read the config file"));
}

TEST_F(DaemonConfigTest, ContradictionsAndRepetitionsAreRefused) {
  EXPECT_TRUE(contains(refusal({"--once", "--check-config"}), "exclude each other"));
  EXPECT_TRUE(contains(refusal({"--schema=a", "--schema=b"}), "--schema"));
  EXPECT_TRUE(contains(refusal({"--round-interval"}), "--round-interval"));
  refusal({"--once=7"});
}

TEST_F(DaemonConfigTest, NoPasswordIsEverPrinted) {
  const std::string secret = "hunter2";
  const std::string uri = "postgresql://app:" + secret + "@127.0.0.1:1/app";
  const std::string pairs = "host=127.0.0.1 port=1 user=app password=" + secret + " dbname=app";
  const std::string redis = "redis://app:" + secret + "@127.0.0.1:1";
  const std::string path = file("database = " + uri + "\nredis = " + redis +
                                "\n[queue b]\ndatabase = \"" + pairs + "\"\n");
  const std::vector<std::vector<std::string>> command_lines{
      {"--database", uri, "--redis", redis, "--check-config"},
      {"--config", path, "--check-config"},
      {"--config", path, "--once"},
      {"--config", path, "--once", "--log-format", "json", "--log-level", "debug"},
      {"--databse=" + uri},
      {"--databse", uri},
      {uri},
      {"--schema", uri, "--database", uri},
      {"--schema", pairs, "--database", pairs},
      {"--round-interval", uri},
      {"--listen", uri, "--database", uri},
      {"--redis", uri, "--database", uri},
      {"--database", redis},
      {"--database", "postgresql://app:" + secret + "@[::1/app"},
      {"--queue", uri},
      {"--queue", "a " + uri, "--database", uri},
      {"--queue", "a databse=" + uri},
      {"--database=" + uri, "--database=" + uri},
      {"--config", file(uri + "\n", "1")},
      {"--config", file(uri + "?a=b\n", "2")},
      {"--config", file("[" + uri + "]\n", "3")},
      {"--config", file("[queue " + uri + "]\n", "4")},
      {"--config", file("databse = " + uri + "\n", "5")},
      {"--config", file("max-crashes = " + uri + "\n", "6")},
  };
  for (const auto& arguments : command_lines) {
    const Finished done = leaseholdd(arguments);
    EXPECT_FALSE(contains(done.output, secret)) << done.output;
    EXPECT_FALSE(done.output.empty());
  }
  const Finished done =
      leaseholdd({"--check-config"}, {{"LEASEHOLD_DATABASE", uri}, {"LEASEHOLD_QUEUES", uri}});
  EXPECT_FALSE(contains(done.output, secret)) << done.output;
}

TEST_F(DaemonConfigTest, ATakenPortIsSaidAndEndsItWithOne) {
  const std::vector<std::string> arguments{"--database", "postgresql://127.0.0.1:1/x"};
  Leaseholdd first(LEASEHOLDD, arguments);
  auto again = arguments;
  again.insert(again.end(), {"--listen", first.address()});
  const Finished second = leaseholdd(again);
  EXPECT_EQ(second.status.code, 1) << second.output;
  EXPECT_TRUE(
      contains(second.output, "cannot listen on " + first.address() + ": Address already in use"))
      << second.output;
}

TEST_F(DaemonConfigTest, AnAddressThatIsNotOursIsSaidToo) {
  const Finished done = leaseholdd({"--database", db, "--listen", "192.0.2.1:1"});
  EXPECT_EQ(done.status.code, 1) << done.output;
  EXPECT_TRUE(contains(done.output, "cannot listen on 192.0.2.1:1")) << done.output;
}

TEST_F(DaemonConfigTest, TheExampleThatIsShippedIsValid) {
  const std::string path = std::string(LEASEHOLD_SOURCE_DIR) + "/worker/leaseholdd.conf";
  const std::string text = check({"--config", path});
  EXPECT_TRUE(contains(text, "[queue ")) << text;
}

}  // namespace
}  // namespace leasehold::testing
