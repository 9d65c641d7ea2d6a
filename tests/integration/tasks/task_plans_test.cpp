// The plans of the statements that run all the time, at a million rows: the index that is meant,
// and no other way. Plans, not times.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <optional>
#include <pqxx/pqxx>
#include <regex>
#include <string>
#include <vector>

#include "tests/support/eventually.hpp"
#include "tests/support/postgres_tasks.hpp"
#include "tests/support/shared_servers.hpp"
#include "tests/support/sql_files.hpp"
#include "tests/support/sqlite_connection.hpp"
#include "tests/support/task_store.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

class TaskPlansTest : public PostgresTaskTest {
 protected:
  static constexpr int days = 4;  // today and those before, each with completed tasks

  // A million ready tasks of four types, some scheduled for later at a higher priority, some
  // leased, and many finished.
  static void SetUpTestSuite() {
    sql("SET client_min_messages = warning; DROP SCHEMA IF EXISTS leasehold CASCADE");
    migrate(uri());
    // Unlogged: as fast as it can be filled, and the plans are the same.
    sql("ALTER TABLE leasehold.tasks SET (autovacuum_enabled = off);"
        "ALTER TABLE leasehold.tasks SET UNLOGGED;"
        "INSERT INTO leasehold.tasks (type, payload, run_at, state, priority, lease_expiry, "
        "                             leased_by, leased_at) "
        "SELECT 't' || i % 4, '{}'::json, now() - interval '1 day' + i * interval '10 ms', "
        "'pending', 0, "
        "       NULL::timestamptz, NULL, NULL::timestamptz FROM generate_series(1, 900000) i "
        "UNION ALL SELECT 't0', '{}', now() + interval '1 day', 'pending', 9, NULL, NULL, NULL "
        "          FROM generate_series(1, 50000) "
        "UNION ALL SELECT 't1', '{}', now(), 'leased', 0, now() + i * interval '1 ms', 'w', now() "
        "          FROM generate_series(1, 2000) i;"
        "ANALYZE leasehold.tasks");
    for (int day = 0; day < days; ++day) finish_tasks_of(day);
    sql("ANALYZE leasehold.finished_tasks");
  }
  // 50,000 completed tasks, 5,000 dead and 5,000 cancelled ones.
  static void finish_tasks_of(int days_ago) {
    if (days_ago > 0) {
      sql("CREATE TABLE leasehold." + partition_of(days_ago) +
          " PARTITION OF leasehold.finished_completed FOR VALUES FROM ('" + day(days_ago) +
          " 00:00+00') TO ('" + day(days_ago - 1) + " 00:00+00')");
    }
    sql("INSERT INTO leasehold.finished_tasks (id, version, lease_id, run_at, created_at, "
        "  updated_at, finished_at, priority, attempts, max_attempts, crash_count, type, state, "
        "  payload) "
        "SELECT 10000000 + " +
        std::to_string(days - days_ago) +
        " * 1000000 + i, 2, 7, now(), now(), now(), timestamptz '" + day(days_ago) +
        " 12:00+00', 0, 1, 10, 0, 't2', CASE i % 12 WHEN 0 THEN 'dead' WHEN 1 THEN 'cancelled' "
        "  ELSE 'completed' END, '{}' FROM generate_series(1, 60000) i");
  }
  /// As YYYYMMDD. Days are those of UTC.
  static std::string day(int days_ago) {
    static const std::string today = sql("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')");
    return sql("SELECT to_char(date '" + today + "' - " + std::to_string(days_ago) +
               ", 'YYYYMMDD')");
  }
  static std::string partition_of(int days_ago) { return "finished_completed_" + day(days_ago); }
  void SetUp() override {}  // the tables are the suite's

  template <typename... Args>
  static std::string plan_of(const std::string& file, const std::string& statement,
                             Args&&... args) {
    pqxx::connection connection{uri()};
    pqxx::work transaction{connection};
    std::string plan;
    for (const auto& row : transaction.exec_params(
             "EXPLAIN " + sql_statements("queries/" + file).at(statement), args...)) {
      plan += std::string(row[0].c_str()) + "\n";
    }
    return plan;
  }

  /// Of the statements inside of functions: told by auto_explain, with what each step really read.
  static std::string plans_inside(const std::string& statement) {
    return plans_inside("", statement);
  }
  /// The same after other statements of the same session.
  static std::string plans_inside(const std::string& before, const std::string& statement,
                                  const std::string& in_database = database()) {
    return shared_postgres().run_sql(
        before +
            "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0;"
            "SET auto_explain.log_nested_statements = on; SET auto_explain.log_analyze = on;"
            "SET client_min_messages = log; BEGIN;" +
            statement + "; ROLLBACK",
        in_database);
  }

  /// One key that is new, one of a pending task and one of a leased one.
  static constexpr const char* enqueue_unique =
      "SELECT count(*) FROM leasehold.enqueue_unique('{t,t,t}', '{1,1,1}', '{0,0,0}', "
      "'{NULL,NULL,NULL}', '{0,0,0}', '{1,1,1}', '{new,a pending one,a leased one}')";
  static void expect_lookups_of_keys(const std::string& plan) {
    for (const auto& [index, condition] :
         {std::pair{"tasks_unique_key", "(unique_key = "}, std::pair{"tasks_pkey", "(id = "}}) {
      const auto at = plan.find(std::string("Index Scan using ") + index);
      ASSERT_NE(at, std::string::npos) << index << ":\n" << plan;
      const auto next_line = plan.find('\n', at) + 1;
      const std::string line = plan.substr(next_line, plan.find('\n', next_line) - next_line);
      EXPECT_NE(line.find(std::string("Index Cond: ") + condition), std::string::npos)
          << "read to its end:\n"
          << plan;
    }
    for (const auto* bad : {"Seq Scan on tasks", "tasks_ready", "tasks_leased"}) {
      EXPECT_EQ(plan.find(bad), std::string::npos) << bad << ":\n" << plan;
    }
  }

  static std::string lease(int share, int most, const std::string& types,
                           const std::string& floors) {
    return "leasehold.lease('w', 1, 30000, " + std::to_string(share) + ", " + std::to_string(most) +
           ", 1000000, " + std::to_string(most) + ", true, 1000, " + types +
           ", array_fill(true, ARRAY[cardinality(" + types + "::text[])]), " + floors + ")";
  }
  static constexpr const char* no_floors = "'{}', '{}', '{}', '{}'";

  /// Partitions that are empty may be read as they like.
  static void expect_small_scans_only(const std::string& plan) {
    std::vector<std::string> large{"tasks", "finished_dead", "finished_cancelled"};
    for (int day = 0; day < days; ++day) large.push_back(partition_of(day));
    for (const auto& table : large) {
      EXPECT_EQ(plan.find("Seq Scan on " + table), std::string::npos) << plan;
    }
  }

  static void expect_index(const std::string& plan, const std::string& index) {
    EXPECT_NE(plan.find(index), std::string::npos) << "not by " << index << ":\n" << plan;
    for (const auto* table : {"tasks", "finished"}) {
      EXPECT_EQ(plan.find(std::string("Seq Scan on ") + table), std::string::npos) << plan;
    }
  }

  /// How many pages a query reads, once its session has made the plans.
  static int buffers(const std::string& query) {
    const std::string plan = shared_postgres().run_sql(
        "BEGIN; " + query + "; EXPLAIN (ANALYZE, BUFFERS, TIMING off, SUMMARY off) " + query +
            "; ROLLBACK",
        database());
    const auto hit = plan.find("shared hit=");
    EXPECT_NE(hit, std::string::npos) << plan;
    return hit == std::string::npos ? 0 : std::stoi(plan.substr(hit + 11));
  }
};

TEST_F(TaskPlansTest, Lease) {
  const std::string plan =
      plans_inside("SELECT count(*) FROM " + lease(50, 100, "'{t0,t1}'", no_floors));
  EXPECT_NE(plan.find("Index Scan using tasks_ready"), std::string::npos) << plan;
  EXPECT_NE(plan.find("Tid Scan on tasks"), std::string::npos) << plan;
  for (const auto* bad : {"Seq Scan", "Sort", "Hash", "Bitmap"}) {
    EXPECT_EQ(plan.find(bad), std::string::npos) << bad << ":\n" << plan;
  }
  EXPECT_EQ(plan.find("Rows Removed by Filter"), std::string::npos) << "the index alone decides:\n"
                                                                    << plan;
}

TEST_F(TaskPlansTest, LeaseReadsNoMoreThanItTakes) {
  // 50,000 tasks for tomorrow stand before the ready ones: they are not read.
  EXPECT_LT(buffers("SELECT count(*) FROM " + lease(1, 1, "'{t0}'", no_floors)), 100);
}

// A snapshot that is held keeps the entries of leased tasks in the index, of both priorities.
TEST_F(TaskPlansTest, LeaseDoesNotReadDeadEntriesBeforeItsFloors) {
  sql("INSERT INTO leasehold.tasks (type, payload, run_at, priority) SELECT 'dead', '{}', "
      "now() - interval '1 h' + i * interval '1 ms', i % 2 FROM generate_series(1, 60000) i");
  pqxx::connection holder{uri()};
  pqxx::transaction<pqxx::isolation_level::repeatable_read> snapshot{holder};
  snapshot.exec("SELECT count(*) FROM leasehold.fences");
  const auto last = [](int priority) {
    return sql(
        "SELECT (extract(epoch FROM run_at) * 1000000)::bigint, id FROM leasehold.tasks "
        "WHERE type = 'dead' AND priority = " +
        std::to_string(priority) + " ORDER BY run_at DESC, id DESC LIMIT 1");
  };
  const std::string high = last(1);
  const std::string low = last(0);
  const auto part = [](const std::string& text, bool first) {
    const auto bar = text.find('|');
    return first ? text.substr(0, bar) : text.substr(bar + 1);
  };
  sql("DELETE FROM leasehold.tasks WHERE type = 'dead'");
  sql("INSERT INTO leasehold.tasks (type, payload) VALUES ('dead', '{}')");
  const auto buffers_with = [](const std::string& floors) {
    const std::string plan = shared_postgres().run_sql(
        "BEGIN; SELECT count(*) FROM " + lease(1, 1, "'{t3}'", no_floors) +
            "; EXPLAIN (ANALYZE, BUFFERS, TIMING off, SUMMARY off) SELECT count(*) FROM " +
            lease(1, 1, "'{dead}'", floors) + "; ROLLBACK",
        database());
    EXPECT_NE(plan.find("rows=1 "), std::string::npos) << plan;
    return std::stoi(plan.substr(plan.find("shared hit=") + 11));
  };
  EXPECT_GT(buffers_with(no_floors), 1'000);
  EXPECT_LT(buffers_with("'{1,1}', '{-1,0}', '{" + part(high, true) + "," + part(low, true) +
                         "}', '{" + part(high, false) + "," + part(low, false) + "}'"),
            100);
  snapshot.abort();
  sql("VACUUM leasehold.tasks");  // for the tests that follow
}

// The same for what searches all types: recovery, health and counts. Once a search has been slow,
// the next ones begin behind the dead entries.
TEST_F(TaskPlansTest, SlowSearchesAreNotRepeated) {
  sql("INSERT INTO leasehold.tasks (type, payload, run_at, priority) SELECT 'dead', '{}', "
      "now() - interval '1 h' + i * interval '1 ms', i % 2 FROM generate_series(1, 20000) i");
  sql("INSERT INTO leasehold.tasks (type, payload, state, leased_by, leased_at, lease_expiry) "
      "SELECT 'dead', '{}', 'leased', 'w', now() - interval '1 h' + i * interval '1 ms', now() "
      "FROM generate_series(1, 20000) i");
  pqxx::connection holder{uri()};
  pqxx::transaction<pqxx::isolation_level::repeatable_read> snapshot{holder};
  snapshot.exec("SELECT count(*) FROM leasehold.fences");
  sql("DELETE FROM leasehold.tasks WHERE type = 'dead'");
  sql("INSERT INTO leasehold.tasks (type, payload, priority) VALUES ('dead', '{}', 1)");
  // Whose leases are living is not what this is about.
  sql("UPDATE leasehold.tasks SET lease_expiry = now() + interval '1 h' WHERE state = 'leased'");
  const std::string recover = "SELECT * FROM leasehold.recover(0, 0, 1000, 1000000, 3, 1000)";
  const std::string heads = "SELECT * FROM leasehold.pending_heads()";
  const std::string counts = "SELECT * FROM leasehold.count_tasks(10)";
  // From the beginning, however slow this machine is.
  const std::string judge = sql("SELECT pg_get_functiondef('leasehold.good_until'::regproc)");
  sql("CREATE OR REPLACE FUNCTION leasehold.good_until(took interval) RETURNS timestamptz "
      "LANGUAGE sql STABLE AS $$ SELECT timestamptz '-infinity' $$");
  std::map<std::string, int> before;
  for (const auto& search : {recover, heads, counts}) before[search] = buffers(search);
  sql(judge);
  const std::string slow = "interval '1 s'";
  sql("SELECT leasehold.note_leases(" + slow + ")");
  sql("SELECT leasehold.note_heads(ARRAY(SELECT h FROM leasehold.pending_heads() h), " + slow +
      ")");
  // Counting reads those that it counts.
  for (const auto& [search, read] : before) EXPECT_LT(buffers(search), read / 5) << search;

  // What comes back to a place before them is found a little later.
  sql("INSERT INTO leasehold.tasks (type, payload, run_at, priority) "
      "VALUES ('dead', '{}', now() - interval '1 h', 1)");
  sql("INSERT INTO leasehold.tasks (type, payload, state, leased_by, leased_at, lease_expiry) "
      "VALUES ('dead', '{}', 'leased', 'w', now() - interval '1 h', now() - interval '1 s')");
  const std::string pending =
      "SELECT number FROM leasehold.count_tasks(10) WHERE of_type = 'dead' AND in_state = "
      "'pending'";
  const std::string recovered =
      "SELECT count(*) FROM leasehold.recover(0, 0, 1000, 1000000, 3, 1000)";
  EXPECT_EQ(sql(pending), "1");
  EXPECT_EQ(sql(recovered), "0");
  sql("UPDATE leasehold.upkeep SET leases_until = now(), heads_until = now()");
  EXPECT_EQ(sql(pending), "2");
  EXPECT_EQ(sql(recovered), "1");
  snapshot.abort();
  sql("DELETE FROM leasehold.tasks WHERE type = 'dead'; DELETE FROM leasehold.heads;"
      "UPDATE leasehold.upkeep SET leases_until = DEFAULT, heads_until = DEFAULT");
  sql("VACUUM leasehold.tasks");  // for the tests that follow
}

TEST_F(TaskPlansTest, Extend) {
  expect_index(
      plans_inside("SELECT leasehold.extend('{3,5,7}', '{1,1,1}', '{1,1,1}', '{t,f,f}', 1000)"),
      "tasks_pkey");
}
TEST_F(TaskPlansTest, Complete) {
  for (const std::string keep : {"true", "false"}) {
    expect_index(plans_inside("SELECT leasehold.complete('{3,5,7}', '{1,1,1}', '{1,1,1}', "
                              "'{NULL,NULL,NULL}', " +
                              keep + ", 1000)"),
                 "tasks_pkey");
  }
}
TEST_F(TaskPlansTest, Release) {
  expect_index(plans_inside("SELECT leasehold.release('{3,5,7}', '{1,1,1}', '{1,1,1}', NULL, true, "
                            "1000)"),
               "tasks_pkey");
}
TEST_F(TaskPlansTest, Progress) {
  expect_index(plans_inside("SELECT leasehold.note_progress(5, 1, 1, '1', 1000)"), "tasks_pkey");
}
TEST_F(TaskPlansTest, Fail) {
  expect_index(plans_inside("SELECT leasehold.fail('{3,5,7}', '{1,1,1}', '{1,1,1}', '{e,e,e}', "
                            "'{1,NULL,1}', 1000)"),
               "tasks_pkey");
}
TEST_F(TaskPlansTest, Get) {
  const auto plan = plan_of("inspect.sql", "get", 5);
  EXPECT_NE(plan.find("tasks_pkey"), std::string::npos) << plan;
  expect_small_scans_only(plan);
}
TEST_F(TaskPlansTest, GiveBack) {
  expect_index(plans_inside("SELECT count(*) FROM leasehold.give_back('{5,7}')"),
               "Index Scan using tasks_leased");
}
TEST_F(TaskPlansTest, Update) {
  const auto plan =
      plans_inside("SELECT count(*) FROM leasehold.update_task(5, 1, NULL, 1, NULL, NULL)");
  EXPECT_NE(plan.find("tasks_pkey"), std::string::npos) << plan;
  expect_small_scans_only(plan);
}
TEST_F(TaskPlansTest, Recover) {
  expect_index(plans_inside("SELECT count(*) FROM leasehold.recover(0, 0, 1000, 1000000, 3, 1000)"),
               "Index Scan using tasks_leased");
}
TEST_F(TaskPlansTest, LookAfter) {
  sql("UPDATE leasehold.upkeep SET recovered_at = '-infinity'");
  const auto plan =
      plans_inside("SELECT count(*) FROM leasehold.look_after('w', 1000, 1000000, 3)");
  EXPECT_NE(plan.find("Index Scan using tasks_leased"), std::string::npos) << plan;
  expect_small_scans_only(plan);
}
TEST_F(TaskPlansTest, CompleteAndLease) {
  const std::string leased = sql(
      "SELECT format('ARRAY[%s], ARRAY[%s], ARRAY[%s]', string_agg(id::text, ','), "
      "string_agg(version::text, ','), string_agg(lease_id::text, ',')) FROM (SELECT id, version, "
      "lease_id FROM leasehold.tasks WHERE state = 'leased' ORDER BY id LIMIT 3) l");
  const auto plan = plans_inside(
      "SELECT count(*) FROM leasehold.complete_and_lease(" + leased +
      ", '{NULL,NULL,NULL}', true, 1000, 'w', 1, 30000, 2, 2, 1000000, 2, '{t0}', '{true}', " +
      no_floors + ")");
  for (const auto* step : {"tasks_pkey", "Insert on", "tasks_ready"}) {
    EXPECT_NE(plan.find(step), std::string::npos) << step << ":\n" << plan;
  }
  expect_small_scans_only(plan);
}
TEST_F(TaskPlansTest, Counts) {
  const auto plan = plans_inside("SELECT count(*) FROM leasehold.count_tasks(1000)");
  expect_index(plan, "tasks_ready");
  expect_index(plan, "tasks_leased");
  expect_index(plan, "type_id_idx");
}
TEST_F(TaskPlansTest, Health) {
  expect_index(plan_of("inspect.sql", "health"), "tasks_leased");
  const auto inside = plans_inside("SELECT * FROM leasehold.pending_heads()");
  expect_index(inside, "Index Scan using tasks_ready");
}
TEST_F(TaskPlansTest, HealthReadsTheHeadsAndTheLeasedOnesOnly) {
  // 5 types and priorities, 2,000 leased; a million others are not read.
  EXPECT_LT(buffers(sql_statements("queries/inspect.sql").at("health")), 500);
}
TEST_F(TaskPlansTest, EnqueueUnique) {
  sql("UPDATE leasehold.tasks SET unique_key = 'a pending one' WHERE id = (SELECT id FROM "
      "  leasehold.tasks WHERE state = 'pending' LIMIT 1);"
      "UPDATE leasehold.tasks SET unique_key = 'a leased one' WHERE id = (SELECT id FROM "
      "  leasehold.tasks WHERE state = 'leased' LIMIT 1)");
  const auto plan = plans_inside(enqueue_unique);
  EXPECT_NE(plan.find("Conflict Arbiter Indexes: tasks_unique_key"), std::string::npos) << plan;
  expect_lookups_of_keys(plan);
}

// Of a session that is older than most of the tasks.
TEST_F(TaskPlansTest, EnqueueUniqueOfAnOldSession) {
  const std::string name = shared_postgres().create_fresh_database();
  migrate(shared_postgres().uri(name));
  std::string made_when_small =
      "ALTER TABLE leasehold.tasks SET (autovacuum_enabled = off);"
      "INSERT INTO leasehold.tasks (type, payload, unique_key) VALUES ('t', '1', 'a pending one');"
      "INSERT INTO leasehold.tasks (type, payload, unique_key, state, leased_at, lease_expiry) "
      "VALUES ('t', '1', 'a leased one', 'leased', now(), now() + interval '1 h');"
      "ANALYZE leasehold.tasks;";
  for (int i = 0; i < 10; ++i) made_when_small += std::string(enqueue_unique) + ";";
  const std::string then_it_grew =
      "INSERT INTO leasehold.tasks (type, payload, unique_key) "
      "SELECT 't', '{}', 'key ' || i FROM generate_series(1, 20000) i;";
  expect_lookups_of_keys(plans_inside(made_when_small + then_it_grew, enqueue_unique, name));
  shared_postgres().drop_database(name);
}

TEST_F(TaskPlansTest, Enqueue) {
  const auto plan = plan_of("enqueue.sql", "enqueue", "{t}", "{1}", "{0}", "{NULL}", "{0}", "{1}",
                            "{NULL}", nullptr, "");
  EXPECT_EQ(plan.find("Scan on tasks"), std::string::npos) << plan;
}
TEST_F(TaskPlansTest, Cancel) {
  const auto plan = plans_inside("SELECT count(*) FROM leasehold.cancel_task(5)");
  EXPECT_NE(plan.find("tasks_pkey"), std::string::npos) << plan;
  expect_small_scans_only(plan);
}
TEST_F(TaskPlansTest, Retry) {
  const auto plan = plans_inside("SELECT count(*) FROM leasehold.retry_task(5)");
  EXPECT_NE(plan.find("tasks_pkey"), std::string::npos) << plan;
  expect_small_scans_only(plan);
}
TEST_F(TaskPlansTest, List) {
  // Behind all that is pending, so that the days have to be merged.
  for (const char* after : {"0", "10500000"}) {
    const auto plan = plan_of("inspect.sql", "list", nullptr, nullptr, nullptr, after, 100, "true");
    EXPECT_NE(plan.find("tasks_pkey"), std::string::npos) << plan;
    EXPECT_EQ(plan.find("Sort  "), std::string::npos) << plan;
    expect_small_scans_only(plan);
  }
}
// Tables that cannot have tasks in the state are not read.
TEST_F(TaskPlansTest, ListByState) {
  const auto dead = plan_of("inspect.sql", "list", nullptr, "dead", nullptr, 0, 100, "true");
  EXPECT_NE(dead.find("finished_dead"), std::string::npos) << dead;
  EXPECT_EQ(dead.find("on tasks"), std::string::npos) << dead;
  EXPECT_EQ(dead.find("finished_completed"), std::string::npos) << dead;
  const auto completed = plan_of("inspect.sql", "list", "t2", "completed", nullptr, 0, 100, "true");
  EXPECT_NE(completed.find(partition_of(days - 1) + "_"), std::string::npos) << completed;
  EXPECT_EQ(completed.find("on tasks"), std::string::npos) << completed;
  expect_small_scans_only(completed);
  const auto leased = plan_of("inspect.sql", "list", nullptr, "leased", "w", 0, 100, "true");
  EXPECT_NE(leased.find("tasks_leased"), std::string::npos) << leased;
  EXPECT_EQ(leased.find("finished_"), std::string::npos) << leased;
}

TEST_F(TaskPlansTest, RemoveFinished) {
  for (const std::string state : {"dead", "cancelled"}) {
    // Whether all of them are old enough, most or few: the plan must not depend on the time of day.
    for (const std::int64_t hours : {0, 24, 80}) {
      const auto plan = plan_of("manage.sql", "remove_finished", state, hours * 3'600'000, 1'000);
      EXPECT_NE(plan.find("finished_" + state + "_age"), std::string::npos) << plan;
      EXPECT_NE(plan.find("finished_" + state + "_id_idx"), std::string::npos) << plan;
      expect_small_scans_only(plan);
    }
  }
  const auto plan = plan_of("manage.sql", "remove_completed", 3'600'000, 1'000, 0, 4'000);
  EXPECT_NE(plan.find("Merge Append"), std::string::npos) << plan;
  expect_small_scans_only(plan);
  EXPECT_NE(plan.find(partition_of(days - 1) + "_id_idx"), std::string::npos) << plan;
}
TEST_F(TaskPlansTest, RemovalDoesNotReadAllThatIsKept) {
  // 160,000 are kept. None of them is old enough.
  std::string query = sql_statements("queries/manage.sql").at("remove_completed");
  query = std::regex_replace(query, std::regex("\\$1"), "315360000000");
  query = std::regex_replace(query, std::regex("\\$2"), "100");
  query = std::regex_replace(query, std::regex("\\$3"), "0");
  query = std::regex_replace(query, std::regex("\\$4"), "400");
  EXPECT_LT(buffers(query), 500);
}
TEST_F(TaskPlansTest, DropDaysDoesNotReadToday) {
  const auto plan = plans_inside("SELECT leasehold.drop_days(86400000)");
  EXPECT_NE(plan.find(partition_of(days - 1)), std::string::npos) << plan;
  EXPECT_EQ(plan.find(partition_of(0)), std::string::npos) << plan;
}

TEST_F(TaskPlansTest, RenewalsAreHot) {
  TaskQueue queue{uri()};
  const auto updates = [&] {
    queue.get(TaskId{1});  // a connection reports its statistics with a statement, once a second
    const auto text =
        sql("SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE "
            "schemaname = 'leasehold' AND relname = 'tasks'");
    const auto bar = text.find('|');
    return std::pair{std::stol(text.substr(0, bar)), std::stol(text.substr(bar + 1))};
  };
  sql("SELECT pg_stat_reset_single_table_counters('leasehold.tasks'::regclass)");
  // Of all types: neighbours, all renewed in one statement, which is the hardest case.
  auto leases = queue.lease({.types = {"t0", "t1", "t2", "t3"}, .limit = 2000});
  ASSERT_EQ(leases.size(), 2000U);
  std::pair<long, long> before;
  EXPECT_TRUE(eventually([&] { return (before = updates()).first >= 2000; }));
  // A lease lives through many: the first one still finds the pages as the lease left them.
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(queue.extend(leases).empty());
  std::pair<long, long> after;
  EXPECT_TRUE(eventually([&] { return (after = updates()).first >= before.first + 4 * 2000; }));
  EXPECT_GE(double(after.second - before.second) / double(after.first - before.first), 0.95);
  EXPECT_TRUE(queue.complete(leases).empty());
}

TEST_F(TaskPlansTest, CountsAreBoundedByTheLimitNotTheDepth) {
  TaskQueue queue{uri()};
  bool capped = false;
  for (const auto& count : queue.counts(1'000)) {
    EXPECT_LE(count.number, 2'000U);
    capped = capped || count.more;
  }
  EXPECT_TRUE(capped);
}

/// The same in SQLite.
class EmbeddedPlansTest : public OnEveryTaskStore {
 protected:
  /// Counts the steps of SQLite's machine that a call on the queue takes.
  static int steps_of(TaskQueue& queue, const std::function<void()>& call) {
    static int steps = 0;
    const auto count_steps = [&](int every) {
      transact(queue, [&](sqlite3* connection) {
        sqlite3_progress_handler(
            connection, every, [](void*) { return ++steps, 0; }, nullptr);
      });
    };
    count_steps(1);
    steps = 0;
    call();
    const int taken = steps;
    count_steps(0);
    return taken;
  }

  std::string plan_of(const std::string& statement) {
    std::string plan;
    transact(queue, [&](sqlite3* connection) {
      const std::string explain = "EXPLAIN QUERY PLAN " + statement;
      sqlite3_stmt* prepared = nullptr;
      ASSERT_EQ(sqlite3_prepare_v2(connection, explain.c_str(), -1, &prepared, nullptr), SQLITE_OK)
          << statement << ": " << sqlite3_errmsg(connection);
      while (sqlite3_step(prepared) == SQLITE_ROW) {
        plan += std::string(reinterpret_cast<const char*>(sqlite3_column_text(prepared, 3))) + "\n";
      }
      sqlite3_finalize(prepared);
    });
    return plan;
  }

  // Whoever leases would take back expired leases once a second, which are steps too.
  TaskQueue queue{uri(), {.recovery = std::nullopt}};
};
ON_STORES(EmbeddedPlansTest, StoreKind::sqlite_memory);

TEST_P(EmbeddedPlansTest, NoStatementReadsTheWholeTable) {
  int looked_at = 0;
  for (const auto& file : std::filesystem::directory_iterator(sql_path("sqlite/tasks"))) {
    if (file.path().stem().string().starts_with("0")) continue;  // makes the tables
    for (const auto& [name, statement] :
         sql_statements("sqlite/tasks/" + file.path().filename().string())) {
      const std::string plan = plan_of(statement);
      const bool reads_all = plan.find("SCAN task_queue\n") != std::string::npos;
      EXPECT_EQ(reads_all, name == "health") << name << ":\n" << plan;  // reads so many at most
      ++looked_at;
    }
  }
  EXPECT_GT(looked_at, 25);
}

TEST_P(EmbeddedPlansTest, ALeaseCostsTheSameHoweverMuchThereIs) {
  const auto lease = [&] {
    auto leases = queue.lease({.types = {"t"}, .limit = 10});
    EXPECT_EQ(leases.size(), 10U);
    queue.release(leases);
  };
  // All at the same time, as tasks of one call are.
  const NewTask task{.type = "t", .run_at = std::chrono::system_clock::now() - 1h};
  queue.enqueue(std::vector<NewTask>(20, task));
  lease();  // prepares the statements
  const int shallow = steps_of(queue, lease);
  queue.enqueue(std::vector<NewTask>(5'000, task));
  queue.enqueue(std::vector<NewTask>(5'000, {.type = "t", .delay = 1h}));
  queue.enqueue(std::vector<NewTask>(1'000, {.type = "done"}));
  auto done = queue.lease({.types = {"done"}, .limit = 1'000});
  queue.complete(done);
  for (int i = 0; i < 100; ++i) queue.enqueue({.type = "other " + std::to_string(i)});
  EXPECT_LT(steps_of(queue, lease), shallow + 10);
  // What is for later, before everything else, costs one look.
  queue.enqueue(std::vector<NewTask>(5'000, {.type = "t", .priority = 9, .delay = 1h}));
  EXPECT_LT(steps_of(queue, lease), shallow + 100);
}

TEST_P(EmbeddedPlansTest, RecoveryAndCountsCostTheSameHoweverMuchThereIs) {
  const auto look = [&] {
    EXPECT_TRUE(Recovery{queue}.run_once().tasks.empty());
    queue.counts(5);
  };
  queue.enqueue(std::vector<NewTask>(20, {.type = "t"}));
  look();
  const int shallow = steps_of(queue, look);
  queue.enqueue(std::vector<NewTask>(5'000, {.type = "t"}));
  EXPECT_EQ(steps_of(queue, look), shallow);
}

}  // namespace
}  // namespace leasehold::testing
