// The rights that a role needs, and what it notes about slow searches.
#include <gtest/gtest.h>

#include <fstream>
#include <leasehold/postgres.hpp>
#include <regex>
#include <string>
#include <vector>

#include "tests/support/postgres_tasks.hpp"
#include "tests/support/refusal_of.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

class TaskRightsTest : public PostgresTaskTest {
 protected:
  // The guide's `app` and `viewer`, by names that nobody else has on a server that we share.
  static inline const std::string app = "leasehold_test_app";
  static inline const std::string viewer = "leasehold_test_viewer";

  /// What the guide grants.
  static std::string grants_of_guide() {
    std::ifstream guide(std::string(LEASEHOLD_SOURCE_DIR) + "/docs/tasks.md");
    std::string lines;
    for (std::string line; std::getline(guide, line);) {
      if (line.starts_with("GRANT ")) lines += line + "\n";
    }
    lines = std::regex_replace(lines, std::regex("\\bapp\\b"), app);
    return std::regex_replace(lines, std::regex("\\bviewer\\b"), viewer);
  }

  void SetUp() override {
    PostgresTaskTest::SetUp();
    for (const std::string& role : {app, viewer}) {
      sql("DROP ROLE IF EXISTS " + role + "; CREATE ROLE " + role);
    }
    sql(grants_of_guide());
  }
  void TearDown() override {
    const std::string both = app + ", " + viewer;
    sql("DROP SCHEMA leasehold CASCADE; DROP OWNED BY " + both + "; DROP ROLE " + both);
  }

  /// From now on every search counts as slow, and what is noted after one is used by the next.
  static void make_searches_slow() {
    sql("CREATE OR REPLACE FUNCTION leasehold.good_until(took interval) RETURNS timestamptz "
        "LANGUAGE sql STABLE AS $$ SELECT clock_timestamp() + interval '30 s' $$");
  }

  static void look(TaskQueue& queue) {
    queue.get(TaskId{1});
    queue.list();
    queue.list({.state = TaskState::leased});
    queue.list({.state = TaskState::completed});
    // The first one searches from the beginning, the second one begins where that has noted.
    for (int i = 0; i < 2; ++i) {
      queue.counts();
      queue.health();
    }
  }

  /// Everything that a program does with its queue. Returns why not.
  static std::string work() {
    sql("DELETE FROM leasehold.tasks; DELETE FROM leasehold.finished_tasks;"
        "DELETE FROM leasehold.fences; DELETE FROM leasehold.fleet; DELETE FROM leasehold.heads;"
        "DELETE FROM leasehold.recovered;"
        "UPDATE leasehold.upkeep SET recovered_at = DEFAULT, leases_until = DEFAULT, "
        "  heads_until = DEFAULT;"
        "INSERT INTO leasehold.fleet VALUES ('long gone', now() - interval '1 h')");
    try {
      // What a lease does for all is not reported: by itself.
      TaskQueue queue{uri_as(app), {.recovery = std::nullopt}};
      queue.enqueue(std::vector<NewTask>(9, {.type = "t"}));
      queue.enqueue({.type = "t", .unique_key = "k"});
      queue.enqueue({.type = "t", .unique_key = "k"});
      lease_one(queue).release();
      lease_one(queue).fail("no");
      const TaskId dead = [&] {
        auto lease = lease_one(queue);
        lease.fail("no", Retry::never());
        return lease.id();
      }();
      queue.update(dead, queue.get(dead)->version, {.priority = 1});
      queue.retry(dead);
      auto lease = lease_one(queue);
      lease.extend();
      lease.progress("1");
      lease.complete("1");
      auto in_own = lease_one(queue);
      {
        pqxx::connection connection{uri_as(app)};
        pqxx::work own{connection};
        fence(own, "r", FencingToken{1});
        fence(own, "r", FencingToken{2});
        enqueue_in(own, queue, NewTask{.type = "t"});
        complete_in(own, in_own);
        own.commit();
      }
      const TaskId cancelled = queue.enqueue({.type = "u"}).id;
      queue.update(cancelled, queue.get(cancelled)->version, {.priority = 1});
      queue.cancel(cancelled);
      lease_one(queue).abandon();
      sql("UPDATE leasehold.tasks SET lease_expiry = now() WHERE state = 'leased'");
      Recovery{queue, {.max_crashes = 1}}.run_once();
      {
        pqxx::connection connection{uri_as(app)};
        pqxx::nontransaction as_worker{connection};
        as_worker.exec("SELECT * FROM leasehold.look_after('w', 10, 1000000, 3)");
        sql("UPDATE leasehold.fleet SET seen_at = now() - interval '1 min'");
        as_worker.exec("SELECT * FROM leasehold.look_after('w', 10, 1000000, 3)");
      }
      look(queue);
      queue.remove_finished({.completed = 1ms, .cancelled = 1ms, .dead = 1ms});
      queue.remove_finished({.completed = 24h});
      // A role without these rights is not refused: it only cannot note anything.
      if (sql("SELECT count(*) FROM leasehold.heads") == "0") return "nothing was noted";
      return "";
    } catch (const std::exception& error) {
      return error.what();
    }
  }
};

TEST_F(TaskRightsTest, WhatTheGuideNamesIsEnoughAndAllOfItIsNeeded) {
  make_searches_slow();
  EXPECT_EQ(work(), "");
  // Each right that the role has on each table.
  const std::string rights =
      sql("SELECT string_agg(g.privilege_type || ' ON leasehold.' || g.table_name, ',') FROM "
          "information_schema.role_table_grants g WHERE g.grantee = '" +
          app + "'");
  std::size_t number = 0;
  for (std::size_t at = 0, end = 0; end != rights.size(); at = end + 1) {
    end = std::min(rights.find(',', at), rights.size());
    const std::string right = rights.substr(at, end - at);
    sql("REVOKE " + right + " FROM " + app);
    EXPECT_NE(work(), "") << "works without " << right;
    sql("GRANT " + right + " TO " + app);
    ++number;
  }
  EXPECT_GT(number, 15U) << rights;
  sql("REVOKE USAGE ON SEQUENCE leasehold.tasks_id_seq FROM " + app);
  EXPECT_TRUE(contains(work(), "tasks_id_seq"));
}

TEST_F(TaskRightsTest, WhoOnlyLooksNeedsToReadFiveTables) {
  TaskQueue owner{uri()};
  owner.enqueue(std::vector<NewTask>(2, {.type = "t"}));
  lease_one(owner).complete();
  TaskQueue looking{uri_as(viewer)};
  EXPECT_NO_THROW(look(looking));
  make_searches_slow();
  EXPECT_NO_THROW(look(looking));
  EXPECT_EQ(sql("SELECT heads_until > now() FROM leasehold.upkeep"), "f") << "it cannot write";
  owner.counts();
  EXPECT_EQ(sql("SELECT heads_until > now() FROM leasehold.upkeep"), "t");
  EXPECT_NO_THROW(look(looking)) << "the table heads is in use";
  for (const std::string table : {"tasks", "finished_tasks", "upkeep", "heads"}) {
    sql("REVOKE SELECT ON leasehold." + table + " FROM " + viewer);
    EXPECT_EQ(refusal_of([&] { look(looking); }, table), ServerRefused::Reason::permission);
    sql("GRANT SELECT ON leasehold." + table + " TO " + viewer);
  }
}

// A policy makes each search of this role take a while.
TEST_F(TaskRightsTest, ASlowSearchNotesWhereTheNextOneCanBegin) {
  TaskQueue owner{uri(), {.recovery = std::nullopt}};
  owner.enqueue(std::vector<NewTask>(2, {.type = "a"}));
  owner.enqueue({.type = "b", .priority = 7});
  TaskLease held = lease_one(owner, "a");
  sql("ALTER TABLE leasehold.tasks ENABLE ROW LEVEL SECURITY;"
      "CREATE POLICY slowly ON leasehold.tasks TO " +
      app + " USING ((SELECT true FROM pg_sleep(0.06)))");
  TaskQueue slow{uri_as(app), {.recovery = std::nullopt}};
  const auto noted = [](const std::string& what) {
    return sql("SELECT " + what + "_until > now() FROM leasehold.upkeep");
  };
  Recovery{owner}.run_once();
  owner.health();
  EXPECT_EQ(noted("leases"), "f") << "that was quick";
  EXPECT_EQ(noted("heads"), "f");

  Recovery{slow}.run_once();
  EXPECT_EQ(noted("leases"), "t");
  EXPECT_EQ(sql("SELECT leases_from BETWEEN now() - interval '1 h' AND now() - interval '9 s' "
                "FROM leasehold.upkeep"),
            "t");
  EXPECT_EQ(noted("heads"), "f");

  // A search for expired leases that was slow is not repeated at once, unless the next one can
  // begin where this one has noted.
  const auto look_after_as = [](const std::string& where, const std::string& known_until) {
    sql("UPDATE leasehold.upkeep SET recovered_at = DEFAULT, leases_from = now() - interval '1 h', "
        "leases_until = " +
        known_until);
    pqxx::connection connection{where};
    pqxx::nontransaction{connection}.exec(
        "SELECT * FROM leasehold.look_after('w', 10, 1000000, 3)");
    return sql("SELECT recovered_at > now() FROM leasehold.upkeep");
  };
  const std::string soon = "now() + interval '30 s'";
  EXPECT_EQ(look_after_as(uri(), soon), "f");
  EXPECT_EQ(look_after_as(uri_as(app), soon), "t");
  EXPECT_EQ(look_after_as(uri_as(app), "DEFAULT"), "f");

  sql("UPDATE leasehold.upkeep SET leases_until = DEFAULT, leases_from = DEFAULT");
  slow.health();
  EXPECT_EQ(noted("heads"), "t");
  EXPECT_EQ(sql("SELECT string_agg(type || rank, ' ' ORDER BY type) FROM leasehold.heads"),
            "a0 b-7");
  EXPECT_EQ(held.complete(), LeaseWrite::accepted);
}

}  // namespace
}  // namespace leasehold::testing
