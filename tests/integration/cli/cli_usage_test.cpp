// The command line of leasehold: its words, and what it says to mistakes. No server is needed.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "harness/process.hpp"
#include "harness/temp_dir.hpp"
#include "tests/support/leasehold_cli.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

using Arguments = std::vector<std::string>;

CliResult cli(const Arguments& arguments, const std::string& input = {},
              const std::map<std::string, std::string>& env = {}) {
  return run_cli(LEASEHOLD_CLI, arguments, input, env);
}

constexpr int misused = 2;
constexpr int unreachable = 4;

/// Nobody listens there.
const std::string no_redis = "redis://:topsecret@127.0.0.1:1";
const std::string no_database = "postgresql://u:topsecret@127.0.0.1:1/x";

bool has_control_characters(const std::string& text) {
  return text.find_first_of(std::string("\x1b\r\b\a", 4)) != text.npos;
}

std::size_t columns_of(const std::string& line) {
  std::size_t columns = 0;
  for (const char c : line) columns += (static_cast<unsigned char>(c) & 0xc0U) != 0x80 ? 1 : 0;
  return columns;
}

const std::vector<Arguments> all_commands{{"status"},
                                          {"top"},
                                          {"enqueue"},
                                          {"tasks", "list"},
                                          {"tasks", "show"},
                                          {"tasks", "retry"},
                                          {"tasks", "cancel"},
                                          {"tasks", "purge"},
                                          {"locks", "list"},
                                          {"locks", "show"},
                                          {"locks", "release"},
                                          {"locks", "clean"},
                                          {"migrate"},
                                          {"recover"},
                                          {"load"},
                                          {"demo"},
                                          {"completion"},
                                          {"version"}};

TEST(CliUsageTest, EveryCommandHasHelpWithExamplesThatFits80Columns) {
  std::vector<Arguments> commands = all_commands;
  commands.insert(commands.end(), {{"tasks"}, {"locks"}});
  for (Arguments command : commands) {
    command.emplace_back("--help");
    const CliResult help = cli(command);
    EXPECT_EQ(help.code, 0) << help;
    EXPECT_NE(help.out.find("Examples:\n"), std::string::npos) << help;
    EXPECT_NE(help.out.find("--json"), std::string::npos) << help;
    EXPECT_FALSE(has_control_characters(help.out)) << help;
    std::istringstream lines(help.out.substr(0, help.out.find("Examples:")));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(columns_of(line), 80u) << line;
  }
  const CliResult all = cli({"--help"});
  EXPECT_NE(all.out.find("Exit codes:\n  0"), std::string::npos) << all;
  EXPECT_NE(all.out.find("LEASEHOLD_DATABASE_URL"), std::string::npos) << all;
}

TEST(CliUsageTest, MistakesAreNamedAndNothingIsPrinted) {
  const struct {
    Arguments arguments;
    std::string message;
  } mistakes[] = {
      {{}, "a command is missing"},
      {{"stauts"}, "Did you mean status?"},
      {{"frobnicate"}, "The commands are "},
      {{"tasks"}, "The commands are list, show"},
      {{"tasks", "lst"}, "Did you mean list?"},
      {{"status", "--jsno"}, "Did you mean --json?"},
      {{"--bogus", "status"}, "unknown flag \"--bogus\""},
      {{"status", "more"}, "one argument too many: \"more\""},
      {{"version", "--yes"}, "unknown flag \"--yes\""},
      {{"status"}, "three ways"},
      {{"locks", "list"}, "three ways"},
      {{"tasks", "list"}, "three ways"},
      {{"load"}, "three ways"},
      {{"status", "--store", "sqlite:mistyped.db"}, "there is no file \"mistyped.db\""},
      {{"locks", "list", "--store", "sqlite:mistyped.db"}, "there is no file"},
      {{"tasks", "list", "--store", "sqlite:mistyped.db"}, "there is no file"},
      {{"recover", "--once", "--store", "sqlite:mistyped.db"}, "leasehold migrate"},
      {{"tasks", "show"}, "ID is required"},
      {{"tasks", "show", "seven", "--database", no_database},
       "ID must be 1 to 9223372036854775807, got \"seven\""},
      {{"tasks", "show", "-1", "--database", no_database},
       "ID must be 1 to 9223372036854775807, got \"-1\""},
      {{"tasks", "show", "99999999999999999999", "--database", no_database},
       "ID must be 1 to 9223372036854775807, got \"9999"},
      {{"tasks", "list", "--limit", "0", "--database", no_database}, "must be 1 to 10000"},
      {{"tasks", "list", "--state", "asleep", "--database", no_database}, "must be pending"},
      {{"tasks", "list", "--limit"}, "--limit"},
      {{"tasks", "retry", "--database", no_database}, "no task is selected"},
      {{"tasks", "retry", "1", "--all", "--database", no_database}, "exclude each other"},
      {{"tasks", "retry", "1", "--type", "x", "--database", no_database}, "need --all"},
      {{"tasks", "cancel", "1", "two", "--yes", "--database", no_database},
       "ID must be 1 to 9223372036854775807, got \"two\""},
      {{"tasks", "purge", "--older-than", "1d", "--database", no_database}, "no --state"},
      {{"tasks", "purge", "--state", "dead", "--database", no_database}, "--older-than"},
      {{"tasks", "purge", "--state", "pending", "--older-than", "1d", "--database", no_database},
       "must be completed, cancelled or dead"},
      {{"tasks", "purge", "--state", "dead", "--older-than", "soon", "--database", no_database},
       "written like 500ms"},
      {{"enqueue", "--database", no_database}, "TYPE or --from is missing"},
      {{"enqueue", "t", "--payload", "{", "--database", no_database}, "is not JSON"},
      {{"enqueue", "t", "--payload", "1", "--payload-file", "x", "--database", no_database},
       "exclude each other"},
      {{"enqueue", "t", "--payload-file", "/nowhere", "--database", no_database}, "cannot read"},
      {{"enqueue", "t", "--priority", "high", "--database", no_database},
       "--priority must be -1000000 to 1000000, got \"high\""},
      {{"enqueue", "t", "--run-at", "tomorrow", "--database", no_database}, "--run-at must be"},
      {{"enqueue", "t", "--run-at", "2026-02-31T00:00:00Z", "--database", no_database},
       "--run-at must be"},
      {{"enqueue", "t", "--delay", "-5s", "--database", no_database},
       "--delay must be 0ms to 3653d (written like 500ms, 5s, 2m, 1h or 7d), got \"-5s\""},
      {{"enqueue", "t", "--max-attempts", "0", "--database", no_database},
       "--max-attempts must be"},
      {{"enqueue", std::string(129, 't'), "--database", no_database}, "must have 1 to 128 bytes"},
      {{"enqueue", "--from", "/nowhere", "--database", no_database}, "cannot read"},
      {{"enqueue", "--from", "/", "--database", no_database}, "cannot read"},
      {{"locks", "list", "--state", "free", "--redis", no_redis}, "must be held or stale"},
      {{"locks", "show", "", "--redis", no_redis}, "lock name"},
      {{"locks", "show", "a{b", "--redis", no_redis}, "lock name"},
      {{"locks", "release", "--redis", no_redis}, "NAME is required"},
      {{"recover", "--database", no_database}, "leaseholdd"},
      {{"recover", "--once", "--max-crashes", "0", "--database", no_database},
       "--max-crashes must be"},
      {{"load", "--clients", "0", "--redis", no_redis}, "--clients must be 1 to 256, got \"0\""},
      {{"load", "--duration", "1", "--redis", no_redis},
       "--duration must be 1ms to 1d (written like 500ms, 5s, 2m, 1h or 7d), got \"1\""},
      {{"demo", "--on", "paper"}, "must be sqlite or servers"},
      {{"demo", "--redis", "http://x"}, "redis+cluster://"},
      {{"demo", "--workers", "0"}, "--workers must be 1 to 64, got \"0\""},
      {{"demo", "--tasks", "many"}, "--tasks must be 1 to 100000, got \"many\""},
      {{"demo", "--seconds", "-1"}, "--seconds must be 1 to 3600, got \"-1\""},
      {{"demo", "--seed", "x"}, "--seed must be 0 to 1000000000, got \"x\""},
      {{"completion"}, "SHELL is required"},
      {{"completion", "fish"}, "must be bash or zsh"},
      {{"status", "--store", "redis://x"}, "must be sqlite:FILE"},
      {{"status", "--config", "/nowhere"}, "cannot read the config file /nowhere"},
      {{"status", "--queue", "q"}, "no --config"},
      {{"tasks", "list", "--database", "mysql://x"}, "mysql"},
      {{"locks", "list", "--redis", "http://x"}, "redis://"},
      {{"top", "--interval", "1ms", "--redis", no_redis}, "--interval must be"},
      // Names of commands are no commands in the wrong place.
      {{"status", "top"}, "one argument too many: \"top\""},
      {{"tasks", "show", "recover", "--database", no_database},
       "ID must be 1 to 9223372036854775807, got \"recover\""},
      // An empty value is not as good as none.
      {{"tasks", "cancel", "--all", "--type", "", "--yes", "--database", no_database},
       "--type has an empty value"},
      {{"tasks", "cancel", "--all", "--type=", "--yes", "--database", no_database},
       "\"--type=\" has an empty value"},
      {{"--redis", "", "locks", "list"}, "--redis has an empty value"},
      {{"enqueue", "t", "--payload", "", "--database", no_database}, "--payload has an empty"},
      {{"load", "--prefix", "a{b", "--duration", "1h", "--redis", no_redis},
       "lock name must not have control characters or braces, got \"a{b"},
      {{"enqueue", "t", "--run-at", "2600-01-01T00:00:00Z", "--database", no_database},
       "--run-at must be"},
      {{"enqueue", "t", "--payload-file", "/", "--database", no_database}, "cannot read"},
      {{"enqueue", "t", "--from", "-", "--payload", "1", "--payload-file", "x", "--database",
        no_database},
       "exclude each other"},
  };
  for (const auto& mistake : mistakes) {
    const CliResult result = cli(mistake.arguments);
    EXPECT_EQ(result.code, misused) << mistake.message << "\n" << result;
    EXPECT_NE(result.err.find(mistake.message), std::string::npos) << mistake.message << result;
    EXPECT_NE(result.err.find("--help"), std::string::npos) << result;
    EXPECT_EQ(result.out, "") << result;
    EXPECT_EQ(result.err.find("topsecret"), std::string::npos) << result;
  }
}

TEST(CliUsageTest, WithJsonErrorsAreJsonToo) {
  const CliResult result = cli({"tasks", "list", "--json"});
  EXPECT_EQ(result.code, misused) << result;
  const auto error = nlohmann::json::parse(result.err);
  EXPECT_EQ(error["exit_code"], misused);
  EXPECT_NE(error["hint"].get<std::string>().find("LEASEHOLD_DATABASE_URL"), std::string::npos);
  const CliResult while_parsing = cli({"tasks", "list", "--json", "--limit"});
  EXPECT_EQ(nlohmann::json::parse(while_parsing.err)["exit_code"], misused) << while_parsing;
}

TEST(CliUsageTest, FlagsMayStandBehindAnyWord) {
  for (const Arguments& words : {Arguments{"--json", "tasks", "list"},
                                 {"tasks", "--json", "list"},
                                 {"tasks", "list", "--json"}}) {
    const CliResult result = cli(words);
    EXPECT_EQ(nlohmann::json::parse(result.err)["exit_code"], misused) << result;
  }
}

TEST(CliUsageTest, ABrokenConfigFileIsInTheWayOnlyOfThoseWhoNeedIt) {
  const std::map<std::string, std::string> broken{{"LEASEHOLD_CONFIG", "/nowhere"}};
  EXPECT_EQ(cli({"version"}, "", broken).code, 0);
  EXPECT_EQ(cli({"completion", "bash"}, "", broken).code, 0);
  EXPECT_EQ(cli({"man"}, "", broken).code, 0);
  const CliResult demo =
      cli({"demo", "--workers", "1", "--tasks", "5", "--seconds", "1"}, "", broken);
  EXPECT_EQ(demo.code, 0) << demo;
  EXPECT_EQ(cli({"status"}, "", broken).code, misused);
}

TEST(CliUsageTest, AnUnreachableStoreIsExitCode4AndNoPasswordIsShown) {
  const Arguments commands[] = {
      {"status", "--redis", no_redis, "--database", no_database},
      {"status", "--redis", no_redis, "--json"},
      {"top", "--redis", no_redis},
      {"tasks", "list", "--database", no_database},
      {"tasks", "show", "1", "--database", no_database, "--json"},
      {"tasks", "cancel", "1", "--yes", "--database", no_database},
      {"enqueue", "t", "--database", no_database},
      {"migrate", "--database", no_database},
      {"recover", "--once", "--database", no_database},
      {"locks", "list", "--redis", no_redis},
      {"locks", "show", "a", "--redis", no_redis},
      {"locks", "release", "a", "--yes", "--redis", no_redis},
      {"load", "--duration", "100ms", "--redis", no_redis},
  };
  for (const Arguments& command : commands) {
    const CliResult result = cli(command);
    EXPECT_EQ(result.code, unreachable) << command[0] << "\n" << result;
    EXPECT_EQ((result.out + result.err).find("topsecret"), std::string::npos) << result;
    EXPECT_FALSE(has_control_characters(result.out + result.err)) << result;
  }
}

TEST(CliUsageTest, APasswordInTheWrongPlaceIsNotShown) {
  const Arguments commands[] = {
      {no_redis},
      {"status", no_redis},
      {"status", "--" + no_redis},
      {"status", "--store", no_redis},
      {"tasks", "list", "--state", no_redis, "--database", no_database},
      {"tasks", "list", "--limit", no_redis, "--database", no_database},
      {"tasks", "show", no_redis, "--database", no_database},
      {"enqueue", "t", "--delay", no_redis, "--database", no_database},
      {"status", "--redis", "redis://:topsecret@host:port"},
      {"status", "--schema", no_database, "--database", no_database},
  };
  for (const Arguments& command : commands) {
    const CliResult result = cli(command);
    EXPECT_EQ(result.code, misused) << result;
    EXPECT_EQ((result.out + result.err).find("topsecret"), std::string::npos) << result;
  }
}

TEST(CliUsageTest, FlagsGoBeforeTheEnvironmentAndThatBeforeTheConfigFile) {
  const TempDir dir;
  const std::string config = (dir.path() / "leaseholdd.conf").string();
  std::ofstream(config) << "redis = redis://127.0.0.1:1/1\n[queue q]\ndatabase = "
                           "postgresql://127.0.0.1:1/q\n";
  const auto where = [&](Arguments arguments, const std::map<std::string, std::string>& env,
                         const char* part) {
    arguments.insert(arguments.begin(), "status");
    arguments.emplace_back("--json");
    const CliResult result = cli(arguments, "", env);
    EXPECT_EQ(result.code, unreachable) << result;
    return result.json().at(part).value("where", "");
  };
  EXPECT_EQ(where({"--config", config}, {}, "locks"), "redis://127.0.0.1:1/1");
  EXPECT_EQ(where({}, {{"LEASEHOLD_CONFIG", config}}, "locks"), "redis://127.0.0.1:1/1");
  const std::map<std::string, std::string> daemons{{"LEASEHOLD_CONFIG", config},
                                                   {"LEASEHOLD_REDIS", "redis://127.0.0.1:1/2"}};
  EXPECT_EQ(where({}, daemons, "locks"), "redis://127.0.0.1:1/2");
  auto ours = daemons;
  ours["LEASEHOLD_REDIS_URL"] = "redis://127.0.0.1:1/3";
  EXPECT_EQ(where({}, ours, "locks"), "redis://127.0.0.1:1/3");
  EXPECT_EQ(where({"--redis", "redis://127.0.0.1:1/4"}, ours, "locks"), "redis://127.0.0.1:1/4");
  EXPECT_EQ(where({"--config", config, "--queue", "q"}, {}, "tasks"), "postgresql://127.0.0.1:1/q");

  const CliResult no_section = cli({"status", "--config", config, "--queue", "none"});
  EXPECT_EQ(no_section.code, misused) << no_section;
  EXPECT_NE(no_section.err.find("no section [queue none]"), std::string::npos) << no_section;
  std::ofstream(config) << "databse = x\n";
  const CliResult typo = cli({"status", "--config", config});
  EXPECT_EQ(typo.code, misused) << typo;
  EXPECT_NE(typo.err.find("leaseholdd.conf:1: unknown key \"databse\""), std::string::npos) << typo;
}

TEST(CliUsageTest, VersionIsSaidInThreeWays) {
  const CliResult word = cli({"version"});
  EXPECT_EQ(word.code, 0);
  EXPECT_TRUE(word.out.starts_with("leasehold ")) << word;
  EXPECT_EQ(cli({"--version"}).out, word.out);
  for (const char* way : {"version", "--version"}) {
    EXPECT_EQ("leasehold " + cli({way, "--json"}).json()["version"].get<std::string>() + "\n",
              word.out);
  }
}

/// What bash offers after these words.
std::string completions(const TempDir& dir, const std::string& words, int cursor) {
  const std::string script = ". " + (dir.path() / "completion").string() + "; COMP_WORDS=(" +
                             words + "); COMP_CWORD=" + std::to_string(cursor) +
                             "; _leasehold; echo \"${COMPREPLY[*]}\"";
  return run({.argv = {"bash", "-c", script}}).output;
}

TEST(CliUsageTest, BashCompletesCommandsAndFlags) {
  const TempDir dir;
  std::ofstream(dir.path() / "completion") << cli({"completion", "bash"}).out;
  EXPECT_EQ(completions(dir, "leasehold sta", 1), "status\n");
  EXPECT_EQ(completions(dir, "leasehold tasks ''", 2), "list show retry cancel purge\n");
  EXPECT_EQ(completions(dir, "leasehold locks r", 2), "release\n");
  EXPECT_EQ(completions(dir, "leasehold tasks purge --old", 3), "--older-than\n");
  EXPECT_EQ(completions(dir, "leasehold tasks list --state dead --lim", 5), "--limit\n");
}

/// What zsh is offered after these words, when it runs the file as it does at the first <TAB>: as
/// the body of the function. Only zsh's own part, which picks what fits, is not there.
std::string zsh_completions(const TempDir& dir, const std::string& words, int current) {
  const std::string script =
      "fpath=(" + dir.path().string() +
      "); autoload -U _leasehold; compadd() { shift; print -r -- $* }; words=(" + words +
      "); CURRENT=" + std::to_string(current) + "; _leasehold 2>&1";
  return run({.argv = {"zsh", "-f", "-c", script}}).output;
}

TEST(CliUsageTest, ZshCompletesCommandsAndFlagsAtTheFirstTry) {
  const TempDir dir;
  const std::string script = cli({"completion", "zsh"}).out;
  EXPECT_TRUE(script.starts_with("#compdef leasehold\n")) << script;
  ASSERT_NE(run({.argv = {"sh", "-c", "command -v zsh"}}).output, "")
      << "zsh is not installed (Debian package zsh; run ./dev setup)";
  std::ofstream(dir.path() / "_leasehold") << script;
  EXPECT_TRUE(zsh_completions(dir, "leasehold sta", 2).starts_with("completion demo enqueue "));
  EXPECT_EQ(zsh_completions(dir, "leasehold tasks ''", 3), "list show retry cancel purge\n");
  EXPECT_EQ(zsh_completions(dir, "leasehold version --j", 3), "--json --help\n");
  EXPECT_EQ(zsh_completions(dir, "leasehold --json version --j", 4), "--json --help\n");
}

TEST(CliUsageTest, TheManualTellsOfEveryCommandAndFlag) {
  const CliResult man = cli({"man"});
  EXPECT_EQ(man.code, 0);
  EXPECT_TRUE(man.out.starts_with(".TH LEASEHOLD 1")) << man;
  for (const Arguments& command : all_commands) {
    const std::string name = command.size() == 1 ? command[0] : command[0] + " " + command[1];
    EXPECT_NE(man.out.find(".SS " + name + "\n"), std::string::npos) << name;
  }
  EXPECT_NE(man.out.find("\\fB\\-\\-older\\-than TIME\\fR"), std::string::npos);
  EXPECT_NE(man.out.find(".SH EXIT STATUS"), std::string::npos);
  for (const char* flag : {"\\fB\\-\\-version\\fR", "\\fB\\-h, \\-\\-help\\fR"}) {
    EXPECT_NE(man.out.find(flag), std::string::npos) << flag;
  }
}

TEST(CliUsageTest, OutputThatCanNotBeWrittenIsAFailure) {
  const auto result =
      run({.argv = {"sh", "-c", std::string(LEASEHOLD_CLI) + " version > /dev/full"}});
  EXPECT_EQ(result.status.code, 1) << result.output;
}

}  // namespace
}  // namespace leasehold::testing
