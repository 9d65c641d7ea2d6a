// The partitions of completed tasks, one for each day: how they come, how they go, and that nobody
// has to wait for it.
#include <gtest/gtest.h>

#include <atomic>
#include <leasehold/postgres.hpp>
#include <pqxx/pqxx>
#include <string>
#include <thread>

#include "tests/support/eventually.hpp"
#include "tests/support/postgres_tasks.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

class TaskDaysTest : public PostgresTaskTest {
 protected:
  /// The name of the partition of a day, counted from today.
  static std::string day(int from_today) {
    return sql("SELECT 'finished_completed_' || to_char((now() AT TIME ZONE 'UTC')::date + " +
               std::to_string(from_today) + ", 'YYYYMMDD')");
  }
  static bool is_there(int from_today) {
    return sql("SELECT count(*) FROM pg_inherits WHERE inhrelid = to_regclass('leasehold." +
               day(from_today) + "')") == "1";
  }
  /// As add_days() would have done it on that day.
  static void add_old_day(int ago) {
    sql("CREATE TABLE leasehold." + day(-ago) +
        " PARTITION OF leasehold.finished_completed FOR VALUES FROM (" + midnight(-ago) + ") TO (" +
        midnight(1 - ago) + ")");
  }
  static std::string midnight(int from_today) {
    return "'" +
           sql("SELECT to_char((now() AT TIME ZONE 'UTC')::date + " + std::to_string(from_today) +
               ", 'YYYY-MM-DD')") +
           " 00:00+00'";
  }
  /// Completed tasks that ended in the middle of a day.
  static void insert(int number, int from_today) {
    sql("INSERT INTO leasehold.finished_tasks (id, version, lease_id, run_at, created_at, "
        "updated_at, finished_at, priority, attempts, max_attempts, crash_count, type, state, "
        "payload) SELECT 1000 + i, 2, 7, now(), now(), now(), timestamptz " +
        midnight(from_today) +
        " + interval '12 h', 0, 1, 10, 0, 't', 'completed', '{}' FROM generate_series(1, " +
        std::to_string(number) + ") i");
  }
  static int count(const std::string& table) {
    return std::stoi(sql("SELECT count(*) FROM leasehold." + table));
  }
  static void complete_one(TaskQueue& queue) {
    queue.enqueue({.type = "t"});
    EXPECT_EQ(lease_one(queue).complete(), LeaseWrite::accepted);
  }
};

TEST_F(TaskDaysTest, WhoLooksForTasksAddsTheComingDays) {
  for (int n = 0; n <= 7; ++n) sql("DROP TABLE leasehold." + day(n));
  TaskQueue queue{uri()};
  EXPECT_TRUE(queue.lease({.types = {"t"}}).empty());
  for (int n = 0; n <= 7; ++n) EXPECT_TRUE(is_there(n)) << n;
  complete_one(queue);
  EXPECT_EQ(count(day(0)), 1);
  EXPECT_EQ(count("finished_completed_other"), 0);
}

TEST_F(TaskDaysTest, ARecoveryAddsThemToo) {
  for (int n = 0; n <= 7; ++n) sql("DROP TABLE leasehold." + day(n));
  TaskQueue queue{uri(), {.recovery = std::nullopt}};
  Recovery{queue}.run_once();
  for (int n = 0; n <= 7; ++n) EXPECT_TRUE(is_there(n)) << n;
}

// Whatever the session thinks of dates and times: a day is one of UTC.
TEST_F(TaskDaysTest, ADayIsADayWhateverTheSettings) {
  for (const auto* settings : {"SET datestyle = 'SQL, DMY'; SET timezone = 'Pacific/Kiritimati'",
                               "SET datestyle = 'German'; SET timezone = 'Pacific/Pago_Pago'",
                               "SET datestyle = 'Postgres, MDY'; SET timezone = 'Europe/Berlin'"}) {
    for (int n = 0; n <= 7; ++n) sql("DROP TABLE IF EXISTS leasehold." + day(n));
    pqxx::connection connection{uri()};
    pqxx::work transaction{connection};
    transaction.exec(settings);
    transaction.exec("SELECT leasehold.add_days(2)");
    transaction.commit();
    for (int n = 0; n <= 2; ++n) {
      ASSERT_TRUE(is_there(n)) << settings;
      EXPECT_EQ(sql("SELECT pg_get_expr(relpartbound, oid) = format('FOR VALUES FROM (%L) TO "
                    "(%L)', timestamptz " +
                    midnight(n) + ", timestamptz " + midnight(n + 1) +
                    ") FROM pg_class WHERE oid = 'leasehold." + day(n) + "'::regclass"),
                "t")
          << settings;
    }
  }
}

TEST_F(TaskDaysTest, AddingDaysDoesNotWaitForOpenTransactionsOfWriters) {
  sql("DROP TABLE leasehold." + day(3));
  TaskQueue queue{uri(), {.recovery = std::nullopt}};
  queue.enqueue({.type = "t"});
  auto lease = lease_one(queue);
  pqxx::connection connection{uri()};
  pqxx::work transaction{connection};
  complete_in(transaction, lease);  // has a lock on the parent, and on today's partition
  sql("SELECT leasehold.add_days(3)");
  EXPECT_TRUE(is_there(3));
  transaction.commit();
}

TEST_F(TaskDaysTest, AddingDaysLetsNobodyWaitBehindAnOpenTransactionOfReaders) {
  sql("DROP TABLE leasehold." + day(3));
  pqxx::connection connection{uri()};
  pqxx::work reading{connection};
  reading.exec("SELECT count(*) FROM leasehold.finished_tasks");
  sql("ALTER FUNCTION leasehold.add_days(integer, bigint) SET lock_timeout = 0");
  sql("SET statement_timeout = '10s'; SELECT leasehold.add_days(3)");
  sql("RESET statement_timeout");
  EXPECT_FALSE(is_there(3)) << "later, when nobody reads";
  reading.commit();
  sql("SELECT leasehold.add_days(3)");
  EXPECT_TRUE(is_there(3));
}

TEST_F(TaskDaysTest, ARecoveryRecoversEvenIfNoDaysCanBeAdded) {
  TaskQueue queue{uri(), {.recovery = std::nullopt}};
  queue.enqueue({.type = "t"});
  const auto lease = lease_one(queue);
  expire(lease.id());
  sql("DROP FUNCTION leasehold.add_days(integer)");
  EXPECT_EQ(Recovery{queue}.run_once().requeued, 1U);
  EXPECT_THROW(Recovery{queue}.run_once(), ServerRefused) << "somebody has to be told";
}

// They were completed while nobody added days, or by a clock that was wrong.
TEST_F(TaskDaysTest, TasksOutsideOfAllDaysAreInNobodysWayAndAreRemovedToo) {
  sql("DROP TABLE leasehold." + day(0) + "; DROP TABLE leasehold." + day(2));
  insert(5, -9);
  insert(7, 0);
  insert(1, 30);
  EXPECT_EQ(count("finished_completed_other"), 13);
  TaskQueue queue{uri()};
  EXPECT_TRUE(queue.lease({.types = {"t"}}).empty());
  EXPECT_FALSE(is_there(0)) << "its tasks are elsewhere already";
  EXPECT_TRUE(is_there(2));
  complete_one(queue);
  EXPECT_EQ(queue.remove_finished({.completed = 48h}), 5U);
  EXPECT_EQ(count("finished_completed_other"), 9);
  EXPECT_EQ(queue.stats().outcomes_unknown, 0U);
}

TEST_F(TaskDaysTest, ExpiredLeasesComeBackEvenIfNoDaysCanBeAdded) {
  sql("DROP TABLE leasehold." + day(2) +
      "; DROP ROLE IF EXISTS powerless; CREATE ROLE powerless;"
      "GRANT USAGE ON SCHEMA leasehold TO powerless;"
      "ALTER FUNCTION leasehold.add_days(integer) OWNER TO powerless");
  TaskQueue crashing{uri(), {.recovery = std::nullopt}};
  const TaskId id = crashing.enqueue({.type = "t"}).id;
  lease_one(crashing).abandon();
  expire(id);
  TaskQueue queue{uri()};
  EXPECT_EQ(queue.lease({.types = {"t"}}).size(), 1U);
  EXPECT_FALSE(is_there(2));
  sql("ALTER FUNCTION leasehold.add_days(integer) OWNER TO CURRENT_USER;"
      "DROP OWNED BY powerless; DROP ROLE powerless");
}

// A completion that waits while the partition of its day is added would go to the wrong one, and is
// refused by it.
TEST_F(TaskDaysTest, ACompletionSurvivesThatItsDayIsAdded) {
  TaskQueue queue{uri()};
  queue.enqueue({.type = "t"});
  auto lease = lease_one(queue);
  sql("DROP TABLE leasehold." + day(0));
  pqxx::connection other{uri()};
  pqxx::work adding{other};
  adding.exec("SELECT leasehold.add_days(0)");
  std::jthread completing([&] { EXPECT_EQ(lease.complete(), LeaseWrite::accepted); });
  EXPECT_TRUE(eventually([&] {
    return sql("SELECT count(*) FROM pg_locks WHERE NOT granted") != "0";
  })) << "it waits for the other transaction";
  adding.commit();
  completing.join();
  EXPECT_EQ(count(day(0)), 1);
}

// ATTACH would read all of it, and nobody could complete a task meanwhile.
TEST_F(TaskDaysTest, NoDaysAreAddedBesideALargeTableOfStrays) {
  sql("DROP TABLE leasehold." + day(1));
  sql("INSERT INTO leasehold.finished_tasks (id, version, lease_id, run_at, created_at, updated_at,"
      " finished_at, priority, attempts, max_attempts, crash_count, type, state, payload)"
      " SELECT i, 2, 7, now(), now(), now(), now() - interval '9 days', 0, 1, 10, 0, 't', "
      "'completed',"
      " ('\"' || repeat('x', 1700) || '\"')::json FROM generate_series(1, 40000) i");
  sql("SELECT leasehold.add_days(1)");
  EXPECT_FALSE(is_there(1));
  sql("SELECT leasehold.add_days(1, 1000000000)");
  EXPECT_TRUE(is_there(1)) << "an operator allows it";
}

TEST_F(TaskDaysTest, RetentionDropsWholeDays) {
  for (const int ago : {1, 2, 3, 9}) {
    add_old_day(ago);
    insert(ago, -ago);
  }
  TaskQueue queue{uri()};
  EXPECT_EQ(queue.remove_finished({.completed = 48h}), 3U + 9U)
      << "the day before yesterday has tasks that are not old enough";
  EXPECT_FALSE(is_there(-9));
  EXPECT_FALSE(is_there(-3));
  EXPECT_TRUE(is_there(-2));
  EXPECT_TRUE(is_there(-1));
  EXPECT_TRUE(is_there(0));
  EXPECT_EQ(queue.remove_finished({.completed = 48h}), 0U);
  complete_one(queue);
}

TEST_F(TaskDaysTest, TasksThatAreNotOldEnoughAreNotReadAllToFindOthers) {
  // In order of id: 20 that have just ended, because they took long, then some old ones.
  insert(20, 0);
  sql("UPDATE leasehold.finished_tasks SET id = id - 1000, finished_at = now()");
  insert(10, 0);
  sql("UPDATE leasehold.finished_tasks SET finished_at = now() - interval '2 h' WHERE id > 1000");
  TaskQueue queue{uri()};
  EXPECT_EQ(queue.remove_finished({.completed = 1h, .chunk = 5}), 0U) << "4 chunks are looked at";
  EXPECT_EQ(queue.remove_finished({.completed = 1h, .chunk = 5}), 10U) << "and then the next ones";
}

TEST_F(TaskDaysTest, ADayThatSomebodyReadsIsDroppedLater) {
  for (const int ago : {7, 8, 9}) {
    add_old_day(ago);
    insert(ago, -ago);
  }
  TaskQueue queue{uri()};
  {
    pqxx::connection connection{uri()};
    pqxx::work reading{connection};
    reading.exec("SELECT count(*) FROM leasehold." + day(-8));
    EXPECT_EQ(queue.remove_finished({.completed = 24h}), 9U) << "the days before it";
  }
  EXPECT_EQ(queue.remove_finished({.completed = 24h}), 8U + 7U);
}

// Dropping a day locks everybody out who completes tasks: it must not last longer than it takes.
TEST_F(TaskDaysTest, NobodyIsLockedOutWhileOldDaysAreCounted) {
  add_old_day(8);
  add_old_day(7);
  pqxx::connection other{uri()};
  pqxx::work blocking{other};
  blocking.exec("LOCK TABLE leasehold." + day(-7) + " IN ACCESS EXCLUSIVE MODE");
  const std::string parent = sql("SELECT 'leasehold.finished_completed'::regclass::oid");
  std::atomic<int> waiting{0};
  std::atomic<int> locked_out{0};
  std::jthread looking([&](const std::stop_token& stop) {
    pqxx::connection connection{uri()};
    pqxx::nontransaction look{connection};
    while (!stop.stop_requested()) {
      const auto row = look.exec(
          "SELECT count(*), count(*) FILTER (WHERE EXISTS (SELECT FROM pg_locks h WHERE "
          "h.pid = w.pid AND h.granted AND h.mode = 'AccessExclusiveLock' AND h.relation = " +
          parent + ")) FROM pg_locks w WHERE NOT w.granted")[0];
      waiting += row[0].as<int>();
      locked_out += row[1].as<int>();
    }
  });
  TaskQueue queue{uri()};
  EXPECT_TRUE(eventually([&] {
    queue.remove_finished({.completed = 48h});
    if (waiting == 0 && !is_there(-8)) add_old_day(8);
    return waiting > 0;
  })) << "that somebody waits for the seventh day was not seen";
  looking.request_stop();
  looking.join();
  EXPECT_EQ(locked_out, 0) << "of " << waiting;
  blocking.abort();
  queue.remove_finished({.completed = 48h});
  EXPECT_FALSE(is_there(-7));
}

TEST_F(TaskDaysTest, AUserWhoOwnsNothingAddsDaysAndRemovesTasksOneByOne) {
  sql("DROP TABLE leasehold." + day(2));
  add_old_day(9);
  insert(4, -9);
  sql("DROP ROLE IF EXISTS plain_worker; CREATE ROLE plain_worker;"
      "GRANT USAGE ON SCHEMA leasehold TO plain_worker;"
      "GRANT SELECT, INSERT, UPDATE, DELETE ON leasehold.tasks, leasehold.finished_tasks, "
      "leasehold.finished_completed, leasehold.finished_completed_other, leasehold.fleet, "
      "leasehold.upkeep, leasehold.recovered TO plain_worker");
  {
    TaskQueue queue{uri_as("plain_worker")};
    complete_one(queue);
    EXPECT_TRUE(is_there(2)) << "with the rights of the owner";
    EXPECT_EQ(queue.remove_finished({.completed = 48h}), 4U);
    EXPECT_TRUE(is_there(-9)) << "empty";
    // Only then with the rights of the owner.
    sql("GRANT EXECUTE ON FUNCTION leasehold.drop_days TO plain_worker");
    queue.remove_finished({.completed = 48h});
    EXPECT_FALSE(is_there(-9));
  }
  sql("DROP OWNED BY plain_worker; DROP ROLE plain_worker");
}

}  // namespace
}  // namespace leasehold::testing
