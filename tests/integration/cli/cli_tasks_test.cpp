// leasehold migrate, enqueue, tasks, recover and status.
#include <sqlite3.h>

#include <fstream>
#include <leasehold/sqlite.hpp>

#include "tests/support/cli_fixture.hpp"
#include "tests/support/fault_proxy.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

class CliTasksTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    migrate(task_uri);
  }

  TaskQueue queue() const { return TaskQueue{task_uri}; }

  /// A task that was tried once and is dead.
  TaskId add_dead(TaskQueue& queue, const std::string& type) {
    const TaskId id = queue.enqueue({.type = type}).id;
    auto leases = queue.lease({.types = {type}});
    EXPECT_EQ(leases.size(), 1u);
    EXPECT_EQ(leases.at(0).fail("it \x1b[31mbroke\n", Retry::never()), FailOutcome::dead);
    return id;
  }

  std::string file(const std::string& text) const {
    const auto path = dir.path() / "tasks.ndjson";
    std::ofstream(path) << text;
    return path.string();
  }

  /// From now on tasks of the type "cursed" can not be changed, and none can be added.
  void curse() {
    const std::string then = "BEGIN SELECT RAISE(ABORT, 'the disk is full'); END;";
    if (GetParam() == On::servers) {
      shared_postgres().run_sql(
          "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'the disk is "
          "full'; END $$;"
          "CREATE TRIGGER no BEFORE INSERT OR UPDATE ON leasehold.tasks FOR EACH ROW"
          " WHEN (NEW.type = 'cursed') EXECUTE FUNCTION no();"
          "CREATE TRIGGER no BEFORE INSERT ON leasehold.finished_cancelled FOR EACH ROW"
          " WHEN (NEW.type = 'cursed') EXECUTE FUNCTION no()",
          database);
      return;
    }
    TaskQueue tasks = queue();
    transact(tasks, [&](sqlite3* db) {
      for (const char* change : {"INSERT", "UPDATE"}) {
        const std::string sql = std::string("CREATE TRIGGER no_") + change + " BEFORE " + change +
                                " ON task_queue WHEN NEW.type = 'cursed' " + then;
        EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
      }
    });
  }
};

class CliMigrateTest : public CliTest {};

TEST_P(CliMigrateTest, MigrateMakesTheTablesOnce) {
  const CliResult before = cli({"tasks", "list"});
  if (GetParam() == On::servers) {  // SQLite's are made with the file
    EXPECT_EQ(before.code, failed) << before;
    EXPECT_TRUE(contains(before.err, "leasehold migrate")) << before;
  }
  const CliResult first = cli({"migrate"});
  EXPECT_EQ(first.code, 0) << first;
  EXPECT_TRUE(contains(first.out, "the tables are at version")) << first;
  const CliResult second = cli({"migrate"});
  EXPECT_TRUE(second.out.starts_with("nothing to do")) << second;
  EXPECT_TRUE(json({"migrate"})["applied"].empty());
  EXPECT_EQ(cli({"tasks", "list"}).code, 0);
}

TEST_P(CliTasksTest, OneTaskIsAddedWithEverythingTheFlagsSay) {
  const auto added =
      json({"enqueue", "mail", "--payload", R"({"to": 7})", "--priority", "-5", "--run-at",
            "2030-01-02T03:04:05.678+01:00", "--max-attempts", "4", "--unique-key", "k"});
  EXPECT_EQ(added["outcome"], "added");
  const auto task = queue().get({added["id"].get<std::int64_t>()});
  ASSERT_TRUE(task);
  EXPECT_EQ(task->payload, R"({"to": 7})");
  EXPECT_EQ(task->priority, -5);
  EXPECT_EQ(task->max_attempts, 4);
  EXPECT_EQ(task->unique_key, "k");
  EXPECT_EQ(task->run_at.time_since_epoch() / 1ms, 1893549845678);
  const CliResult again = cli({"enqueue", "mail", "--unique-key", "k"});
  EXPECT_EQ(again.code, 0) << again;
  EXPECT_TRUE(again.out.starts_with("not added: task " + std::to_string(task->id.value))) << again;
  const auto shown = json({"tasks", "show", std::to_string(task->id.value)});
  EXPECT_EQ(shown["payload"]["to"], 7);
  EXPECT_EQ(shown["run_at"], "2030-01-02T02:04:05.678Z");
  EXPECT_TRUE(shown["leased_by"].is_null());
}

TEST_P(CliTasksTest, ManyTasksComeFromAFileOrStandardInput) {
  std::string lines;
  for (int i = 0; i < 2'500; ++i) lines += R"({"payload":{"z":1,"a":)" + std::to_string(i) + "}}\n";
  lines +=
      "\n"
      R"({"type":"other","delay":"1h","priority":3,"unique_key":"u","run_at":null})"
      "\n";
  EXPECT_EQ(json({"enqueue", "bulk", "--from", file(lines)})["added"], 2'501);
  const CliResult piped = cli({"enqueue", "bulk", "--from", "-"}, lines);
  EXPECT_EQ(piped.out,
            "2,500 added, 1 not added: a pending or leased task has the same unique key\n")
      << piped;
  EXPECT_EQ(piped.err, "");
  const auto first = queue().list({.type = "bulk", .limit = 1});
  EXPECT_EQ(first.at(0).payload, R"({"z":1,"a":0})");
  EXPECT_EQ(queue().list({.type = "other"}).at(0).priority, 3);
}

TEST_P(CliTasksTest, ABadLineIsNamedAndAFileWithOneAddsNothing) {
  const std::string good = R"({"type":"t"})";
  const struct {
    std::string line;
    std::string message;
  } bad[] = {
      {"{", "a line must be a JSON object, got"},
      {"[1]", "a line must be a JSON object, got"},
      {"{}", "the type is missing"},
      {R"({"type":7})", "type must be a string"},
      {R"({"type":""})", "the type is missing"},
      {R"({"type":"t","colour":"red"})", "unknown key \"colour\""},
      {R"({"type":"t","priority":1.5})", "priority must be a whole number"},
      {R"({"type":"t","priority":2000000})", "priority must be a whole number"},
      {R"({"type":"t","priority":18446744073709551615})", "priority must be a whole number"},
      {R"({"type":"t","delay":"soon"})",
       "delay must be 0ms to 3653d (written like 500ms, 5s, 2m, 1h or 7d), got \"soon\""},
      {R"({"type":"t","run_at":"2026-13-01T00:00:00Z"})", "run_at must be a time like"},
      {R"({"type":"t","max_attempts":0})", "max_attempts must be 1 to 1000000, got 0"},
      {R"({"type":"\u0007"})", "control characters"},
      {std::string("\xff\xfe"), "a line must be a JSON object, got"},
  };
  for (const auto& [line, message] : bad) {
    const CliResult result =
        cli({"enqueue", "--from", file(good + "\n" + good + "\n" + line + "\n" + good + "\n")});
    EXPECT_EQ(result.code, misused) << result;
    EXPECT_TRUE(contains(result.err, "tasks.ndjson:3: ")) << result;
    EXPECT_TRUE(contains(result.err, message)) << message << result;
    EXPECT_TRUE(contains(result.err, "Nothing was added")) << result;
  }
  EXPECT_TRUE(queue().counts().empty());
}

std::string deeply_nested(std::size_t depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

TEST_P(CliTasksTest, APayloadThatIsNestedTooDeepIsRefusedHoweverItComes) {
  const std::string deep = deeply_nested(200'000);
  const std::string message = "payload must be nested at most 500 deep, got 200000";
  const CliResult from_file = cli({"enqueue", "t", "--payload-file", file(deep)});
  EXPECT_EQ(from_file.code, misused) << from_file.err;
  EXPECT_TRUE(contains(from_file.err, message)) << from_file.err;
  const CliResult argument = cli({"enqueue", "t", "--payload", deeply_nested(60'000)});
  EXPECT_EQ(argument.code, misused) << argument.err;
  EXPECT_TRUE(contains(argument.err, "at most 500 deep, got 60000")) << argument.err;

  // A line is an object around its payload.
  const std::string line_message = "line must be nested at most 501 deep, got 200001";
  const std::string line = R"({"payload":)" + deep + "}";
  const CliResult line_of_file = cli({"enqueue", "t", "--from", file("{}\n" + line)});
  EXPECT_EQ(line_of_file.code, misused) << line_of_file.err;
  EXPECT_TRUE(contains(line_of_file.err, "tasks.ndjson:2: a " + line_message)) << line_of_file.err;
  const CliResult piped = cli({"enqueue", "t", "--from", "-"}, "{}\n" + line + "\n{}\n");
  EXPECT_EQ(piped.code, misused) << piped.err;
  EXPECT_TRUE(contains(piped.err, "standard input:2: a " + line_message)) << piped.err;
  EXPECT_TRUE(contains(piped.err, "1 were added before; continue from line 2")) << piped.err;
  EXPECT_EQ(queue().counts().at(0).number, 1u);

  const std::string deepest = R"({"payload":)" + deeply_nested(500) + "}";
  EXPECT_EQ(cli({"enqueue", "t", "--from", "-"}, deepest).code, 0);
}

TEST_P(CliTasksTest, APayloadThatOthersWroteTooDeepIsShownAsText) {
  const TaskId id = queue().enqueue({.type = "t"}).id;
  const std::string deep = deeply_nested(2'000);
  if (GetParam() == On::servers) {
    shared_postgres().run_sql("UPDATE leasehold.tasks SET payload = '" + deep + "'", database);
  } else {
    TaskQueue tasks = queue();
    transact(tasks, [&](sqlite3* db) {
      const std::string sql = "UPDATE task_queue SET payload = '" + deep + "'";
      EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
    });
  }
  EXPECT_EQ(json({"tasks", "show", std::to_string(id.value)})["payload"], deep);
}

TEST_P(CliTasksTest, InputThatDoesNotEndIsNotKept) {
  const auto from = [&](const std::string& command) {
    return run_cli("bash", {"-c", command}, {}, environment());
  };
  const std::string program = LEASEHOLD_CLI;
  const CliResult line = from("(echo '{}'; cat /dev/zero) | " + program + " enqueue t --from -");
  EXPECT_EQ(line.code, misused) << line;
  EXPECT_TRUE(contains(line.err, "standard input:2: a line must have at most 8388608 bytes"))
      << line;
  EXPECT_TRUE(contains(line.err, "1 were added before; continue from line 2")) << line;
  const CliResult payload = from(program + " enqueue t --payload-file /dev/zero");
  EXPECT_EQ(payload.code, misused) << payload;
  EXPECT_TRUE(contains(payload.err, "payload must have at most 1048576 bytes")) << payload;
}

TEST_P(CliTasksTest, ALineMayHaveEightMiBAndNotAByteMore) {
  constexpr std::size_t longest = 8 * 1024 * 1024;
  const auto line = [](std::size_t bytes) { return "{}" + std::string(bytes - 2, ' '); };
  for (const std::string end : {"\n", "", "\n{}"}) {
    const CliResult fits = cli({"enqueue", "t", "--from", file(line(longest) + end)});
    EXPECT_EQ(fits.code, 0) << fits;
    const CliResult too_long = cli({"enqueue", "t", "--from", file(line(longest + 1) + end)});
    EXPECT_EQ(too_long.code, misused) << too_long;
    EXPECT_TRUE(contains(too_long.err, "a line must have at most 8388608 bytes")) << too_long;
  }
}

// The memory of a process can be opened, but nothing can be read at its beginning.
TEST_P(CliTasksTest, AFileThatCannotBeReadToItsEndIsAnError) {
  for (const char* flag : {"--payload-file", "--from"}) {
    const CliResult result = cli({"enqueue", "t", flag, "/proc/self/mem"});
    EXPECT_EQ(result.code, failed) << flag << result;
    EXPECT_TRUE(contains(result.err, "cannot read ")) << flag << result;
    EXPECT_TRUE(contains(result.err, "/proc/self/mem")) << flag << result;
  }
  EXPECT_TRUE(queue().counts().empty());
}

TEST_P(CliTasksTest, LargeTasksAreSentInSmallerBatches) {
  std::string lines;
  for (int i = 0; i < 10; ++i) lines += R"({"payload":")" + std::string(1'000'000, 'x') + "\"}\n";
  curse();
  const CliResult result =
      cli({"enqueue", "t", "--from", "-"}, lines + R"({"type":"cursed"})" + "\n");
  EXPECT_EQ(result.code, failed) << result.err;
  EXPECT_TRUE(contains(result.err, "9 were added before; continue from line 10")) << result.err;
}

TEST_P(CliTasksTest, FromStandardInputTheLinesBeforeABadOneAreAdded) {
  const CliResult result = cli({"enqueue", "t", "--from", "-"}, "{}\n{}\n{}\nnonsense\n{}\n");
  EXPECT_EQ(result.code, misused) << result;
  EXPECT_TRUE(contains(result.err, "standard input:4: ")) << result;
  EXPECT_TRUE(contains(result.err, "3 were added before; continue from line 4")) << result;
  EXPECT_EQ(queue().counts().at(0).number, 3u);
}

TEST_P(CliTasksTest, APipeIsReadOnceAndNothingOfItIsLost) {
  const CliResult result = run_cli(
      "bash", {"-c", std::string(LEASEHOLD_CLI) + " enqueue t --from <(printf '{}\\n{}\\n')"}, {},
      environment());
  EXPECT_EQ(result.code, 0) << result;
  EXPECT_EQ(result.out, "2 added\n") << result;
  EXPECT_EQ(queue().counts().at(0).number, 2u);
}

TEST_P(CliTasksTest, ATypeMayHaveTheNameOfACommand) {
  for (const char* type : {"recover", "enqueue", "tasks"}) {
    EXPECT_EQ(cli({"enqueue", type}).code, 0) << type;
    EXPECT_EQ(queue().list({.type = type}).size(), 1u) << type;
  }
  EXPECT_EQ(cli({"enqueue", "--", "--odd"}).code, 0);
  EXPECT_EQ(queue().list({.type = "--odd"}).size(), 1u);
}

TEST_P(CliTasksTest, WhenTheStoreRefusesALineInTheMiddleItSaysWhereToGoOn) {
  curse();
  std::string lines;
  for (int i = 0; i < 1'000; ++i) lines += "{}\n";
  const CliResult first = cli({"enqueue", "t", "--from", file(R"({"type":"cursed"})")});
  EXPECT_EQ(first.code, failed) << first;
  EXPECT_TRUE(contains(first.err, "Nothing was added")) << first;
  const CliResult later =
      cli({"enqueue", "t", "--from", file(lines + "{}\n" + R"({"type":"cursed"})")});
  EXPECT_EQ(later.code, failed) << later;
  EXPECT_TRUE(contains(later.err, "1,000 were added before; continue from line 1001")) << later;
  // The good lines before a bad one could not be added either.
  const CliResult bad =
      cli({"enqueue", "t", "--from", "-"}, lines + R"({"type":"cursed"})" + "\n{");
  EXPECT_EQ(bad.code, failed) << bad;
  EXPECT_TRUE(contains(bad.err, "1,000 were added before; continue from line 1001")) << bad;
  EXPECT_EQ(queue().counts().at(0).number, 2'000u);
}

TEST_P(CliTasksTest, AnErrorInTheMiddleSaysWhatWasDoneBefore) {
  TaskQueue tasks = queue();
  for (const char* type : {"a", "cursed", "a"}) tasks.enqueue({.type = type});
  curse();
  const CliResult ids = cli({"tasks", "cancel", "1", "2", "3", "--yes"});
  EXPECT_EQ(ids.code, failed) << ids;
  EXPECT_EQ(ids.out, "task 1: cancelled\n") << ids;
  EXPECT_TRUE(contains(ids.err, "1 done before this; the rest was not")) << ids;
  EXPECT_EQ(tasks.get({3})->state, TaskState::pending);
  EXPECT_EQ(tasks.retry({1}), RetryOutcome::requeued);
  const auto all = json({"tasks", "cancel", "--all", "--yes"}, failed);
  EXPECT_EQ(all["outcomes"]["cancelled"], 1) << all;
  const CliResult none = cli({"tasks", "cancel", "2", "--yes"});
  EXPECT_FALSE(contains(none.err, "done before")) << none;
}

TEST(CliLostAnswerTest, TheLinesThatMayHaveBeenAddedAreNamed) {
  const TempDir dir;
  PostgresServer server;
  migrate(server.uri());
  FaultProxy proxy(server.port());
  const auto enqueue = [&](const std::string& first_batch, const std::string& second_batch) {
    std::string lines;
    for (int i = 0; i < 2'000; ++i) {
      lines += i == 0 ? first_batch : i == 1'000 ? second_batch : "{}";
      lines += "\n";
    }
    const auto path = dir.path() / "tasks.ndjson";
    std::ofstream(path) << lines;
    return run_cli(LEASEHOLD_CLI, {"enqueue", "t", "--from", path.string()}, {},
                   {{"LEASEHOLD_DATABASE_URL", PostgresServer::uri_through(proxy.port())}});
  };
  const std::string marked = R"({"payload":"swallow this answer"})";
  proxy.swallow_next_reply(FaultProxy::Then::cut, "swallow this answer");
  const CliResult first = enqueue(marked, "{}");
  EXPECT_EQ(first.code, 5) << first;
  EXPECT_TRUE(contains(first.err, "0 were added before; lines 1 to 1000 may have been")) << first;
  proxy.swallow_next_reply(FaultProxy::Then::cut, "swallow this answer");
  const CliResult second = enqueue("{}", marked);
  EXPECT_EQ(second.code, 5) << second;
  EXPECT_TRUE(contains(second.err, "1,000 were added before; lines 1001 to 2000 may")) << second;
}

TEST_P(CliTasksTest, TasksAreListedForPeopleAndForPrograms) {
  TaskQueue tasks = queue();
  const TaskId dead = add_dead(tasks, "größe");
  tasks.enqueue({.type = "mail"});
  const CliResult people = cli({"tasks", "list"});
  EXPECT_EQ(people.code, 0);
  EXPECT_TRUE(contains(people.out, "ID  TYPE   STATE")) << people;
  EXPECT_TRUE(contains(people.out, "  größe  dead")) << people;
  EXPECT_TRUE(contains(people.out, "  mail   pending")) << people;
  EXPECT_TRUE(contains(people.out, "it ?[31mbroke"))
      << "an escape of others' went through" << people;
  EXPECT_FALSE(contains(people.out, "\x1b")) << people;

  const auto programs = json({"tasks", "list", "--state", "dead"});
  ASSERT_EQ(programs.size(), 1u);
  EXPECT_EQ(programs[0]["id"], dead.value);
  EXPECT_EQ(programs[0]["last_error"], "it \x1b[31mbroke\n");
  EXPECT_EQ(json({"tasks", "list", "--type", "nothing"}).size(), 0u);
  const CliResult page = cli({"tasks", "list", "--limit", "1"});
  EXPECT_TRUE(contains(page.err, "--after " + std::to_string(dead.value))) << page;
  EXPECT_EQ(json({"tasks", "list", "--after", std::to_string(dead.value)}).size(), 1u);
}

TEST_P(CliTasksTest, AListForProgramsIsWrittenWhileItIsRead) {
  constexpr int number = 60;
  NewTask large{.type = "t", .payload = "\"" + std::string(100'000, 'x') + "\""};
  TaskQueue tasks = queue();
  tasks.enqueue(std::vector<NewTask>(number, large));
  // leasehold cannot go on while nobody reads: a pipe holds less than one of these tasks. So it has
  // not asked for the last one yet.
  const std::string program = LEASEHOLD_CLI;
  const CliResult result =
      run_cli("bash",
              {"-c", program + " tasks list --limit 1000 --json | { head -c 1000; " + program +
                         " tasks cancel " + std::to_string(number) + " --yes >&2; cat; }"},
              {}, environment());
  EXPECT_TRUE(contains(result.err, "task 60: cancelled")) << result.err;
  const auto listed = nlohmann::json::parse(result.out, nullptr, false);
  ASSERT_EQ(listed.size(), std::size_t{number}) << result.out.substr(0, 2'000);
  EXPECT_EQ(listed.front()["state"], "pending");
  EXPECT_EQ(listed.back()["state"], "cancelled") << "all was read before anything was written";
  EXPECT_EQ(listed.back()["payload"].get<std::string>().size(), 100'000u);
}

TEST_P(CliTasksTest, AListForProgramsIsOneIndentedArray) {
  EXPECT_EQ(cli({"tasks", "list", "--json"}).out, "[]\n");
  TaskQueue tasks = queue();
  tasks.enqueue(std::vector<NewTask>(150, {.type = "t", .payload = R"({"a":["b\nc"]})"}));
  const CliResult listed = cli({"tasks", "list", "--json", "--limit", "120"});
  const auto parsed = nlohmann::ordered_json::parse(listed.out);
  EXPECT_EQ(parsed.size(), 120u);
  // A member a line, however nested it is.
  std::string expected = "[\n";
  for (const auto& task : parsed) {
    expected += "  {\n";
    for (const auto& [name, value] : task.items()) {
      const bool last = name == std::prev(task.end()).key();
      expected += "    \"" + name + "\": " + value.dump() + (last ? "\n" : ",\n");
    }
    expected += task == parsed.back() ? "  }\n" : "  },\n";
  }
  EXPECT_EQ(listed.out, expected + "]\n");
  const CliResult shown = cli({"tasks", "show", "120", "--json"});
  EXPECT_TRUE(contains(shown.out, "\n  \"payload\": {\"a\":[\"b\\nc\"]},\n")) << shown;
  EXPECT_EQ(nlohmann::ordered_json::parse(shown.out), parsed.back());
  EXPECT_EQ(json({"tasks", "list", "--after", "120"}).size(), 30u);
}

// Indented by its depth, each number would take a thousand blanks.
TEST_P(CliTasksTest, APayloadThatIsDeeplyNestedIsNotBlownUp) {
  std::string payload = std::string(500, '[') + "0";
  for (int i = 0; i < 20'000; ++i) payload += ",1";
  payload += std::string(500, ']');
  const TaskId id = queue().enqueue({.type = "t", .payload = payload}).id;
  TaskQueue tasks = queue();
  auto leases = tasks.lease({.types = {"t"}});
  ASSERT_EQ(leases.size(), 1u);
  EXPECT_EQ(leases[0].progress(payload), LeaseWrite::accepted);
  EXPECT_EQ(leases[0].complete(payload), LeaseWrite::accepted);
  for (const auto& arguments : {std::vector<std::string>{"tasks", "list", "--json"},
                                {"tasks", "show", std::to_string(id.value), "--json"}}) {
    const CliResult result = cli(arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_LT(result.out.size(), 3 * payload.size() + 2'000) << arguments[1];
    const auto printed = nlohmann::json::parse(result.out, nullptr, false);
    const auto& task = printed.is_array() ? printed.at(0) : printed;
    for (const char* member : {"payload", "progress", "result"}) {
      EXPECT_EQ(task[member].dump(), payload) << arguments[1] << " " << member;
    }
  }
}

TEST_P(CliTasksTest, ATaskInAStateThatIsUnknownIsAnError) {
  TaskQueue tasks = queue();
  const TaskId id = tasks.enqueue({.type = "t"}).id;
  tasks.cancel(id);
  if (GetParam() == On::servers) {
    shared_postgres().run_sql(
        "CREATE TABLE leasehold.finished_paused PARTITION OF leasehold.finished_tasks "
        "FOR VALUES IN ('paused'); UPDATE leasehold.finished_tasks SET state = 'paused'",
        database);
  } else {
    transact(tasks, [&](sqlite3* db) {
      EXPECT_EQ(sqlite3_exec(db,
                             "PRAGMA ignore_check_constraints = on;"
                             "UPDATE task_queue SET state = 'paused';"
                             "PRAGMA ignore_check_constraints = off",
                             nullptr, nullptr, nullptr),
                SQLITE_OK);
    });
  }
  const std::string number = std::to_string(id.value);
  for (const auto& arguments : {std::vector<std::string>{"tasks", "list"},
                                {"tasks", "list", "--json"},
                                {"tasks", "show", number}}) {
    const CliResult result = cli(arguments);
    EXPECT_EQ(result.code, failed) << result;
    EXPECT_TRUE(
        contains(result.err, "a state that this version of Leasehold does not know: paused"))
        << result;
  }
  EXPECT_EQ(cli({"status"}).code, 0);
  EXPECT_EQ(cli({"tasks", "retry", number}).code, failed);
  EXPECT_EQ(cli({"recover", "--once"}).code, 0);
}

// Counted on the line: a payload that was fetched has gone over it.
TEST(CliPayloadTest, NothingThatShowsNoPayloadsFetchesThem) {
  constexpr std::size_t size = 200'000;
  PostgresServer server;
  migrate(server.uri());
  TaskQueue tasks{server.uri()};
  const std::string large = '"' + std::string(size, 'x') + '"';
  tasks.enqueue(std::vector<NewTask>(12, {.type = "t", .payload = large}));
  auto leases = tasks.lease({.types = {"t"}, .limit = 8});
  ASSERT_EQ(leases.size(), 8u);
  for (TaskLease& lease : leases) lease.progress(large);
  for (int i = 0; i < 2; ++i) {
    leases.back().complete(large);
    leases.pop_back();
    leases.back().fail("no", Retry::never());
    leases.pop_back();
  }
  for (TaskLease& lease : leases) lease.abandon();
  FaultProxy proxy(server.port());
  const auto fetched = [&](const std::vector<std::string>& arguments) {
    const std::uint64_t before = proxy.bytes_forwarded();
    const CliResult result =
        run_cli(LEASEHOLD_CLI, arguments, {},
                {{"LEASEHOLD_DATABASE_URL", PostgresServer::uri_through(proxy.port())}});
    EXPECT_EQ(result.code, 0) << arguments[0] << " " << result.err;
    return proxy.bytes_forwarded() - before;
  };
  EXPECT_LT(fetched({"tasks", "list"}), size);
  for (const std::string state : {"pending", "leased", "completed", "dead"}) {
    EXPECT_LT(fetched({"tasks", "list", "--state", state}), size) << state;
  }
  EXPECT_LT(fetched({"status"}), size);
  EXPECT_LT(fetched({"status", "--json"}), size);
  EXPECT_LT(fetched({"top"}), size);
  EXPECT_LT(fetched({"tasks", "cancel", "--all", "--type", "other", "--yes"}), size);
  EXPECT_GT(fetched({"tasks", "list", "--json"}), 12 * size) << "this test counts nothing";
}

TEST_P(CliTasksTest, WhatIsNotThereIsExitCode3) {
  EXPECT_EQ(cli({"tasks", "show", "999"}).code, not_found);
  EXPECT_EQ(cli({"tasks", "cancel", "999", "--yes"}).code, not_found);
  const CliResult retry = cli({"tasks", "retry", "999"});
  EXPECT_EQ(retry.code, not_found);
  EXPECT_EQ(retry.out, "task 999: not found\n");
}

TEST_P(CliTasksTest, DeadTasksAreRetriedOneByOneOrAllTogether) {
  TaskQueue tasks = queue();
  const TaskId one = add_dead(tasks, "a");
  for (int i = 0; i < 3; ++i) add_dead(tasks, "b");
  const TaskId c = add_dead(tasks, "c");
  const std::string id = std::to_string(one.value);
  EXPECT_EQ(cli({"tasks", "retry", id}).out, "task " + id + ": requeued\n");
  const CliResult again = cli({"tasks", "retry", id});
  EXPECT_EQ(again.code, failed);
  EXPECT_EQ(again.out, "task " + id + ": neither dead nor cancelled\n");

  const CliResult nobody = cli({"tasks", "retry", "--all", "--type", "b"});
  EXPECT_EQ(nobody.code, misused);
  EXPECT_TRUE(contains(nobody.err, "--yes")) << nobody;
  EXPECT_EQ(json({"tasks", "retry", "--all", "--type", "b", "--yes"})["outcomes"]["requeued"], 3);
  EXPECT_EQ(tasks.get(c)->state, TaskState::dead);
}

TEST_P(CliTasksTest, CancellingWantsAConfirmation) {
  TaskQueue tasks = queue();
  const TaskId pending = tasks.enqueue({.type = "t"}).id;
  const std::string id = std::to_string(pending.value);
  const CliResult unsure = cli({"tasks", "cancel", id});
  EXPECT_EQ(unsure.code, misused) << unsure;
  EXPECT_EQ(tasks.get(pending)->state, TaskState::pending);
  EXPECT_EQ(cli({"tasks", "cancel", id, "--yes"}).out, "task " + id + ": cancelled\n");
  EXPECT_EQ(tasks.get(pending)->state, TaskState::cancelled);
  EXPECT_EQ(cli({"tasks", "cancel", id, "--yes"}).code, failed);

  const std::vector<NewTask> many(1'234, {.type = "many"});
  tasks.enqueue(many);
  const CliResult all = cli({"tasks", "cancel", "--all", "--type", "many", "--yes"});
  EXPECT_EQ(all.out, "1,234 cancelled\n") << all;
}

TEST_P(CliTasksTest, PurgeDeletesOnlyWhatWasNamed) {
  TaskQueue tasks = queue();
  add_dead(tasks, "a");
  const TaskId cancelled = tasks.enqueue({.type = "a"}).id;
  tasks.cancel(cancelled);
  const std::vector<std::string> purge{"tasks", "purge", "--state", "cancelled", "--older-than"};
  auto young = purge;
  young.insert(young.end(), {"1h", "--yes"});
  EXPECT_EQ(cli(young).out, "0 tasks deleted\n");
  auto unsure = purge;
  unsure.emplace_back("0ms");
  EXPECT_EQ(cli(unsure).code, misused);
  auto sure = unsure;
  sure.emplace_back("--yes");
  EXPECT_EQ(json(sure)["removed"], 1);
  EXPECT_FALSE(tasks.get(cancelled));
  EXPECT_EQ(json({"tasks", "list", "--state", "dead"}).size(), 1u);
}

TEST_P(CliTasksTest, RecoverTakesExpiredLeasesBackAndStatusShowsThem) {
  TaskQueue tasks = queue();
  tasks.enqueue(std::vector<NewTask>(3, {.type = "t"}));
  {
    auto expiring = tasks.lease({.types = {"t"}, .limit = 2, .duration = 100ms, .worker = "gone"});
    for (TaskLease& lease : expiring) lease.abandon();
    auto lasting = tasks.lease({.types = {"t"}, .duration = 1h, .worker = "alive"});
    for (TaskLease& lease : lasting) lease.abandon();
  }
  nlohmann::json status;
  EXPECT_TRUE(eventually(
      [&] {
        status = json({"status"})["tasks"];
        return status["expired_leases"] == 2;
      },
      60s))
      << status;
  EXPECT_EQ(status["workers"].size(), 2u);
  EXPECT_EQ(status["workers"][1],
            (nlohmann::json{{"name", "gone"}, {"leases", 2}, {"expired", 2}}));
  EXPECT_GE(status["oldest_expired_ms"], 0);
  const CliResult people = cli({"status"});
  EXPECT_TRUE(contains(people.out, "2 workers seen, 2 expired leases")) << people;

  EXPECT_EQ(json({"recover", "--once"})["requeued"], 2);
  const CliResult nothing = cli({"recover", "--once"});
  EXPECT_EQ(nothing.out, "0 requeued, 0 dead\n") << nothing;
  EXPECT_EQ(json({"status"})["tasks"]["expired_leases"], 0);
  EXPECT_EQ(json({"status"})["tasks"]["recovered"], (nlohmann::json{{"requeued", 2}, {"dead", 0}}));
  EXPECT_TRUE(contains(cli({"status"}).out, "0 expired leases, 2 recovered so far (0 dead)"));
}

TEST_P(CliTasksTest, StatusCountsTheLeasesOfManyWorkers) {
  TaskQueue tasks = queue();
  tasks.enqueue(std::vector<NewTask>(2'600, {.type = "t"}));
  EXPECT_TRUE(json({"status"})["tasks"]["workers"].empty());
  for (const auto& [worker, number] : {std::pair{"a", 2'500U}, std::pair{"b", 50U}}) {
    auto leases = tasks.lease({.types = {"t"}, .limit = number, .duration = 1h, .worker = worker});
    ASSERT_EQ(leases.size(), number);
    for (TaskLease& lease : leases) lease.abandon();
  }
  const auto status = json({"status"})["tasks"];
  EXPECT_EQ(status["workers"], nlohmann::json::parse(R"([
      {"name": "a", "leases": 2500, "expired": 0}, {"name": "b", "leases": 50, "expired": 0}])"));
  EXPECT_EQ(status["leases_cut_off"], false);
}

INSTANTIATE_TEST_SUITE_P(On, CliMigrateTest, ::testing::Values(On::servers, On::sqlite),
                         name_of_store);
INSTANTIATE_TEST_SUITE_P(On, CliTasksTest, ::testing::Values(On::servers, On::sqlite),
                         name_of_store);

}  // namespace
}  // namespace leasehold::testing
