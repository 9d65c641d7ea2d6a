// Completed tasks of PostgreSQL are kept in a partition for each day, and dropped by the day.
#include <gtest/gtest.h>

#include <leasehold/tasks.hpp>
#include <pqxx/pqxx>
#include <string>

#include "tests/support/postgres_tasks.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

class TaskDaysTest : public PostgresTaskTest {
 protected:
  /// Days of UTC.
  static std::string partition_of(int days_ago) {
    return sql("SELECT 'finished_completed_' || to_char((now() AT TIME ZONE 'UTC')::date - " +
               std::to_string(days_ago) + ", 'YYYYMMDD')");
  }
  /// Three tasks that ended at noon of that day.
  static void finish_tasks(int days_ago) {
    const std::string day = "((now() AT TIME ZONE 'UTC')::date - " + std::to_string(days_ago) + ")";
    sql("DO $$ BEGIN EXECUTE format('CREATE TABLE leasehold." + partition_of(days_ago) +
        " PARTITION OF leasehold.finished_completed FOR VALUES FROM (%L) TO (%L)', " + day +
        " || ' 00:00+00', (" + day + " + 1) || ' 00:00+00'); END $$");
    sql("INSERT INTO leasehold.finished_tasks (id, version, lease_id, run_at, created_at, "
        "  updated_at, finished_at, priority, attempts, max_attempts, crash_count, type, state, "
        "  payload) "
        "SELECT " +
        std::to_string(days_ago) + " * 10 + i, 2, 7, now(), now(), now(), (" + day +
        " || ' 12:00+00')::timestamptz, 0, 1, 10, 0, 't', 'completed', '{}' "
        "FROM generate_series(1, 3) i");
  }
  static std::string days() {
    return sql(
        "SELECT count(*) FROM pg_inherits WHERE inhparent = "
        "'leasehold.finished_completed'::regclass");
  }
  static std::string tasks() { return sql("SELECT count(*) FROM leasehold.finished_tasks"); }

  void SetUp() override {
    PostgresTaskTest::SetUp();
    for (int day = 1; day <= 4; ++day) finish_tasks(day);
  }

  TaskQueue queue{uri()};
};

TEST_F(TaskDaysTest, WholeDaysAreDroppedOnceAllTheirTasksAreOldEnough) {
  const int before = std::stoi(days());
  EXPECT_EQ(queue.remove_finished({.completed = 24h}), 9U) << "yesterday is kept";
  EXPECT_EQ(std::stoi(days()), before - 3);
  EXPECT_EQ(sql("SELECT count(*) FROM leasehold." + partition_of(1)), "3");
  EXPECT_EQ(tasks(), "3");
  EXPECT_EQ(queue.remove_finished({.completed = 24h}), 0U);
}

TEST_F(TaskDaysTest, RetentionOfTheQueueDropsThem) {
  EXPECT_EQ(queue.remove_finished(), 9U) << "by default completed tasks are kept for a day";
  EXPECT_EQ(tasks(), "3");
}

TEST_F(TaskDaysTest, ADayThatSomebodyReadsIsDroppedLater) {
  {
    pqxx::connection connection{uri()};
    pqxx::work reading{connection};
    reading.exec("SELECT count(*) FROM leasehold." + partition_of(3));
    EXPECT_EQ(queue.remove_finished({.completed = 24h}), 3U) << "the days before it";
    EXPECT_EQ(tasks(), "9");
  }
  EXPECT_EQ(queue.remove_finished({.completed = 24h}), 6U);
}

TEST_F(TaskDaysTest, WhoeverDoesNotOwnTheDaysDeletesTheirTasks) {
  sql("DO $$ BEGIN CREATE ROLE sweeper; EXCEPTION WHEN duplicate_object THEN NULL; END $$;"
      "GRANT USAGE ON SCHEMA leasehold TO sweeper;"
      "GRANT SELECT, UPDATE, DELETE ON ALL TABLES IN SCHEMA leasehold TO sweeper");
  const std::string before = days();
  TaskQueue sweeper{uri_as("sweeper")};
  EXPECT_GE(sweeper.remove_finished({.completed = 24h}), 9U);
  EXPECT_EQ(days(), before);
  EXPECT_LE(std::stoi(tasks()), 3);
}

}  // namespace
}  // namespace leasehold::testing
