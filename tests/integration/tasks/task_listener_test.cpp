// How workers hear of new tasks in PostgreSQL.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <leasehold/tasks.hpp>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "postgres/postgres_task_store.hpp"
#include "support/sleep.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/postgres_tasks.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

using Added = std::map<std::string, std::size_t, std::less<>>;

class TaskListenerTest : public PostgresTaskTest {
 protected:
  void SetUp() override {
    PostgresTaskTest::SetUp();
    hear();  // the first one only begins to listen
  }

  void enqueue(const std::string& type, std::size_t number) {
    queue.enqueue(std::vector<NewTask>(number, {.type = type}));
  }
  Added hear() { return listener->wait(in_time.get_token()).added; }
  std::optional<News> hear_of_many(std::chrono::milliseconds longest = 1h) {
    return listener->wait_for_many(longest, in_time.get_token());
  }

  TaskQueue queue{uri()};
  const std::unique_ptr<TaskStore> store = postgres::open_task_store(uri(), {});
  const std::unique_ptr<TaskListener> listener = store->listen();
  std::stop_source in_time;

 private:
  // So that a test whose listener hears nothing fails, and does not wait forever.
  const std::jthread limit{[this](const std::stop_token& over) {
    if (sleep_for(1min, over)) in_time.request_stop();
  }};
};

TEST_F(TaskListenerTest, ItSaysWhatWasAdded) {
  enqueue("a", 3);
  EXPECT_EQ(hear(), (Added{{"a", 3}}));
  enqueue("a", 30);
  EXPECT_EQ(hear(), (Added{{"a", 30}}));
  queue.enqueue(std::vector<NewTask>{{.type = "a"}, {.type = "b"}, {.type = "b"}});
  EXPECT_EQ(hear(), (Added{{"a", 1}, {"b", 2}}));
}

TEST_F(TaskListenerTest, TasksThatWereAddedOneByOneAreNotManyAtOnce) {
  for (int i = 0; i < 20; ++i) enqueue("a", 1);
  EXPECT_EQ(hear(), (Added{{"a", 1}}));
}

TEST_F(TaskListenerTest, TasksForLaterAreNotAnnounced) {
  queue.enqueue(std::vector<NewTask>(20, {.type = "later", .delay = 1h}));
  queue.enqueue({.type = "later", .run_at = std::chrono::system_clock::now() + 1h});
  queue.enqueue(std::vector<NewTask>{{.type = "a", .run_at = std::chrono::system_clock::now() - 1h},
                                     {.type = "later", .delay = 1h}});
  EXPECT_EQ(hear(), (Added{{"a", 1}}));
}

TEST_F(TaskListenerTest, ATaskThatIsRetriedIsAnnounced) {
  const TaskId id = queue.enqueue({.type = "a"}).id;
  hear();
  queue.cancel(id);
  queue.retry(id);
  EXPECT_EQ(hear(), (Added{{"a", 1}}));
}

TEST_F(TaskListenerTest, WhoWaitsForManyDoesNotHearOfAFew) {
  EXPECT_EQ(hear_of_many(1ms), std::nullopt);
  enqueue("unheard", 9);
  enqueue("a", 10);
  const auto heard = hear_of_many();
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->added, (Added{{"a", 10}}));
  enqueue("unheard", 1);
  EXPECT_EQ(hear_of_many(1ms), std::nullopt);

  std::future<Added> all = std::async(std::launch::async, [this] { return hear(); });
  EXPECT_TRUE(eventually([&] {  // listens again
    enqueue("b", 1);
    return all.wait_for(0s) == std::future_status::ready;
  }));
  EXPECT_EQ(all.get(), (Added{{"b", 1}}));
}

TEST_F(TaskListenerTest, AStopEndsBothWaits) {
  std::jthread stopping{[this] { in_time.request_stop(); }};
  hear();
  EXPECT_EQ(hear_of_many(), std::nullopt);
}

TEST_F(TaskListenerTest, AConnectionThatIsLostIsNoticedInBothWaits) {
  for (const bool many : {false, true}) {
    const auto own = store->listen();
    own->wait({});
    const std::string listening =
        " FROM pg_stat_activity WHERE query LIKE 'LISTEN %' AND datname = current_database()";
    sql("SELECT pg_terminate_backend(pid)" + listening);
    ASSERT_TRUE(eventually([&] { return sql("SELECT count(*)" + listening) == "0"; }));
    if (many) {
      EXPECT_THROW(own->wait_for_many(1h, in_time.get_token()), Unavailable);
    } else {
      EXPECT_THROW(own->wait(in_time.get_token()), Unavailable);
    }
  }
}

}  // namespace
}  // namespace leasehold::testing
