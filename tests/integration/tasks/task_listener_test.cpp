// How workers hear of new tasks in PostgreSQL.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <leasehold/tasks.hpp>
#include <map>
#include <memory>
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

TEST_F(TaskListenerTest, WhatIsAnnouncedWhileItRestsIsNotHeard) {
  std::stop_source enough;
  std::jthread resting{[&] { listener->rest(1h, enough.get_token()); }};
  const std::string silent =
      "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'UNLISTEN %' AND datname = "
      "current_database()";
  ASSERT_TRUE(eventually([&] { return sql(silent) == "1"; }));
  enqueue("unheard", 1);
  EXPECT_EQ(sql(silent), "1") << "it has not listened again";
  enough.request_stop();
}

TEST_F(TaskListenerTest, AfterARestItListensAgain) {
  listener->rest(1ms, in_time.get_token());
  std::future<Added> heard = std::async(std::launch::async, [this] { return hear(); });
  EXPECT_TRUE(eventually([&] {
    enqueue("b", 1);
    return heard.wait_for(0s) == std::future_status::ready;
  }));
  EXPECT_EQ(heard.get(), (Added{{"b", 1}}));
}

TEST_F(TaskListenerTest, AStopEndsBothWaits) {
  std::jthread stopping{[this] { in_time.request_stop(); }};
  hear();
  listener->rest(1h, in_time.get_token());
}

TEST_F(TaskListenerTest, AConnectionThatIsLostIsNoticedBothWays) {
  for (const bool rests : {false, true}) {
    const auto own = store->listen();
    own->wait({});
    const std::string listening =
        " FROM pg_stat_activity WHERE query LIKE 'LISTEN %' AND datname = current_database()";
    sql("SELECT pg_terminate_backend(pid)" + listening);
    ASSERT_TRUE(eventually([&] { return sql("SELECT count(*)" + listening) == "0"; }));
    if (rests) {
      EXPECT_THROW(own->rest(1h, in_time.get_token()), Unavailable);
    } else {
      EXPECT_THROW(own->wait(in_time.get_token()), Unavailable);
    }
  }
}

}  // namespace
}  // namespace leasehold::testing
