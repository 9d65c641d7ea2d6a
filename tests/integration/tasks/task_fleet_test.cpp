// What all processes that look for tasks in PostgreSQL do for each other, about once a second.
#include <gtest/gtest.h>

#include <chrono>
#include <leasehold/tasks.hpp>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "postgres/postgres_task_store.hpp"
#include "tests/support/postgres_tasks.hpp"
#include "tests/support/test_namespace.hpp"
#include "tests/support/together.hpp"

namespace leasehold::testing {
namespace {

class TaskFleetTest : public PostgresTaskTest {
 protected:
  static constexpr std::size_t batch = 5;

  void add_expired(std::size_t number) {
    queue.enqueue(std::vector<NewTask>(number, {.type = "t"}));
    for (auto& lease : queue.lease({.types = {"t"}, .limit = number})) lease.abandon();
    sql("UPDATE leasehold.tasks SET lease_expiry = now() - interval '1 s' WHERE state = 'leased';"
        "DELETE FROM leasehold.fleet");  // the queue has said that it is there
    nobody_has_been_there();
  }
  Upkeep look_after(const std::string& process) {
    return store->look_after(process, RecoveryOptions{.batch = batch});
  }
  static std::string tomorrow() {
    return "leasehold.finished_completed_" +
           sql("SELECT to_char((now() AT TIME ZONE 'UTC')::date + 1, 'YYYYMMDD')");
  }
  static void nobody_has_been_there() {
    sql("UPDATE leasehold.upkeep SET recovered_at = '-infinity', counted_at = '-infinity'");
  }

  TaskQueue queue{uri(), {.recovery = std::nullopt}};
  const std::unique_ptr<TaskStore> store =
      postgres::open_task_store(uri(), {.postgres = {.connections = 16}});
};

TEST_F(TaskFleetTest, ManyProcessesRecoverOneBatchASecond) {
  constexpr std::size_t expired = 400;
  add_expired(expired);
  std::mutex mutex;
  std::set<TaskId> recovered;
  std::size_t times = 0;
  const auto begun = std::chrono::steady_clock::now();
  together(16, [&](int process) {
    for (int i = 0; i < 5; ++i) {
      const Upkeep done = look_after("process " + std::to_string(process));
      const std::lock_guard guard(mutex);
      for (const auto& task : done.recovered) recovered.insert(task.id);
      times += done.recovered.size();
    }
  });
  const auto seconds = std::chrono::steady_clock::now() - begun;
  const auto batches = std::size_t(1 + seconds / 900ms);  // one, unless the machine stood still
  EXPECT_GE(recovered.size(), batch);
  EXPECT_LE(recovered.size(), batches * batch);
  EXPECT_EQ(times, recovered.size()) << "none twice";
  EXPECT_EQ(sql("SELECT count(*) FROM leasehold.tasks WHERE state = 'leased'"),
            std::to_string(expired - recovered.size()));

  nobody_has_been_there();
  const Upkeep next = look_after("process 0");
  EXPECT_EQ(next.recovered.size(), batch);
  EXPECT_EQ(next.fleet, 16U);
}

TEST_F(TaskFleetTest, WhoeverComesWithinTheSecondOnlySaysThatItIsThere) {
  add_expired(1);
  sql("DROP TABLE " + tomorrow());
  sql("UPDATE leasehold.upkeep SET recovered_at = now() + interval '50 s',"
      "  counted_at = now() + interval '50 s', fleet = 7;"
      "INSERT INTO leasehold.fleet VALUES ('long gone', now() - interval '1 h')");
  const auto traces = [] {
    return sql("SELECT xmin, recovered_at, fleet FROM leasehold.upkeep") + ";" +
           sql("SELECT string_agg(xmin::text || state, ',') FROM leasehold.tasks") + ";" +
           sql("SELECT xmin FROM leasehold.fleet WHERE name = 'long gone'");
  };
  const std::string before = traces();
  EXPECT_EQ(look_after("a").fleet, 7U) << "as whoever counted last has found";
  EXPECT_TRUE(look_after("a").recovered.empty());
  EXPECT_EQ(traces(), before);
  EXPECT_EQ(sql("SELECT to_regclass('" + tomorrow() + "') IS NULL"), "t");
  const std::string seen = "SELECT xmin FROM leasehold.fleet WHERE name = 'a'";
  const std::string first_seen = sql(seen);
  EXPECT_FALSE(first_seen.empty());
  look_after("a");
  EXPECT_EQ(sql(seen), first_seen) << "written once in 15 s";
  sql("UPDATE leasehold.fleet SET seen_at = now() - interval '16 s' WHERE name = 'a'");
  look_after("a");
  EXPECT_EQ(sql("SELECT seen_at > now() - interval '10 s' FROM leasehold.fleet WHERE name = 'a'"),
            "t");

  nobody_has_been_there();
  const Upkeep done = look_after("b");
  EXPECT_EQ(done.fleet, 2U);
  EXPECT_EQ(done.recovered.size(), 1U);
  EXPECT_EQ(sql("SELECT to_regclass('" + tomorrow() + "') IS NULL"), "f");
  EXPECT_EQ(sql("SELECT string_agg(name, ',' ORDER BY name) FROM leasehold.fleet"), "a,b");
}

// A clock that was wrong for a moment must not stop the upkeep until it has caught up.
TEST_F(TaskFleetTest, AClockThatIsSetBackStopsNothing) {
  add_expired(1);
  sql("UPDATE leasehold.upkeep SET recovered_at = now() + interval '1 h',"
      "  counted_at = now() + interval '1 h', fleet = 7;"
      "INSERT INTO leasehold.fleet VALUES ('a', now() + interval '1 h'), ('b', now() + interval '1 "
      "h')");
  const Upkeep done = look_after("a");
  EXPECT_EQ(done.recovered.size(), 1U);
  EXPECT_EQ(done.fleet, 1U) << "b was not seen lately";
  EXPECT_EQ(sql("SELECT seen_at <= now() FROM leasehold.fleet WHERE name = 'a'"), "t");
}

// Where only leaseholdd recovers leases, workers must know all the same how many they are.
TEST_F(TaskFleetTest, ProcessesThatRecoverNothingAreCountedAndCount) {
  add_expired(1);
  EXPECT_EQ(store->look_after("a", std::nullopt).fleet, 1U);
  nobody_has_been_there();
  const Upkeep done = store->look_after("b", std::nullopt);
  EXPECT_EQ(done.fleet, 2U);
  EXPECT_TRUE(done.recovered.empty());
  EXPECT_EQ(look_after("c").recovered.size(), 1U) << "they keep nobody else from it";
}

// Logical replication of all tables: PostgreSQL then demands to know how rows are identified.
TEST_F(TaskFleetTest, AllTablesCanBePublished) {
  sql("CREATE PUBLICATION everything FOR ALL TABLES");
  add_expired(2);
  sql("DROP TABLE " + tomorrow());
  EXPECT_EQ(look_after("a").recovered.size(), 2U);
  add_expired(1);
  nobody_has_been_there();
  EXPECT_EQ(look_after("a").recovered.size(), 1U);
  for (auto& lease : queue.lease({.types = {"t"}, .limit = 2})) lease.complete();
  auto lease = lease_one(queue);
  EXPECT_EQ(lease.fail("no", Retry::never()), FailOutcome::dead);
  EXPECT_EQ(queue.retry(lease.id()), RetryOutcome::requeued);
  EXPECT_EQ(queue.cancel(lease.id()), CancelOutcome::was_pending);
  sql("UPDATE leasehold.finished_tasks SET finished_at = finished_at - interval '1 min'");
  EXPECT_EQ(queue.remove_finished({.completed = 1ms, .cancelled = 1ms, .dead = 1ms}), 3U);
  sql("DROP PUBLICATION everything");
}

// Whoever is at it does not make others wait.
TEST_F(TaskFleetTest, NobodyWaitsForTheOneThatLooksAfterAll) {
  add_expired(1);
  pqxx::connection other{uri()};
  pqxx::work busy{other};
  busy.exec("SELECT FROM leasehold.upkeep FOR UPDATE");
  EXPECT_TRUE(look_after("a").recovered.empty());
  busy.abort();
  EXPECT_EQ(look_after("a").recovered.size(), 1U);
}

}  // namespace
}  // namespace leasehold::testing
