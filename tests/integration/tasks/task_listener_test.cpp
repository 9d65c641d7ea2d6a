// How workers hear of new tasks in PostgreSQL.
#include <gtest/gtest.h>

#include <functional>
#include <leasehold/tasks.hpp>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "postgres/postgres_task_store.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/postgres_tasks.hpp"
#include "tests/support/signal.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

using Added = std::map<std::string, std::size_t, std::less<>>;

class TaskListenerTest : public PostgresTaskTest {
 protected:
  void enqueue(const std::string& type, std::size_t number) {
    queue.enqueue(std::vector<NewTask>(number, {.type = type}));
  }

  /// Empty if nothing comes in time.
  News wait() {
    std::stop_source give_up;
    const Signal answered;
    const std::jthread deadline([&] {
      if (!answered.wait()) give_up.request_stop();
    });
    const struct Set {
      const Signal& signal;
      ~Set() { signal.set(); }
    } set{answered};  // also by an exception
    return listener->wait(give_up.get_token());
  }

  TaskQueue queue{uri()};
  const std::unique_ptr<TaskStore> store = postgres::open_task_store(uri(), {});
  const std::unique_ptr<TaskListener> listener = store->listen();
};

TEST_F(TaskListenerTest, ItSaysWhatWasAdded) {
  wait();
  enqueue("a", 3);
  EXPECT_EQ(wait().added, (Added{{"a", 3}}));
}

TEST_F(TaskListenerTest, WhatIsAnnouncedWhileItRestsIsNotHeard) {
  wait();
  listener->rest();
  enqueue("unheard", 1);
  wait();
  enqueue("a", 2);
  EXPECT_EQ(wait().added, (Added{{"a", 2}}));
}

TEST_F(TaskListenerTest, AConnectionThatIsLostWhileItRestsIsNoticed) {
  wait();
  const std::string of_listeners =
      " FROM pg_stat_activity WHERE query LIKE 'LISTEN %' AND datname = current_database()";
  EXPECT_EQ(sql("SELECT pg_terminate_backend(pid)" + of_listeners), "t");
  ASSERT_TRUE(eventually([&] { return sql("SELECT count(*)" + of_listeners) == "0"; }));
  EXPECT_THROW(
      {
        listener->rest();
        wait();
      },
      Error);
}

}  // namespace
}  // namespace leasehold::testing
