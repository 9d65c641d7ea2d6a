// How workers hear of new tasks in PostgreSQL.
#include <gtest/gtest.h>

#include <functional>
#include <leasehold/tasks.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "postgres/postgres_task_store.hpp"
#include "tests/support/postgres_tasks.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

using Added = std::map<std::string, std::size_t, std::less<>>;

class TaskListenerTest : public PostgresTaskTest {
 protected:
  void enqueue(const std::string& type, std::size_t number) {
    queue.enqueue(std::vector<NewTask>(number, {.type = type}));
  }

  TaskQueue queue{uri()};
  const std::unique_ptr<TaskStore> store = postgres::open_task_store(uri(), {});
  const std::unique_ptr<TaskListener> listener = store->listen();
};

TEST_F(TaskListenerTest, ItSaysWhatWasAdded) {
  listener->wait({});
  enqueue("a", 3);
  EXPECT_EQ(listener->wait({}).added, (Added{{"a", 3}}));
}

TEST_F(TaskListenerTest, WhatIsAnnouncedWhileItRestsIsNotHeard) {
  listener->wait({});
  listener->rest();
  enqueue("unheard", 1);
  listener->wait({});
  enqueue("a", 2);
  EXPECT_EQ(listener->wait({}).added, (Added{{"a", 2}}));
}

TEST_F(TaskListenerTest, AConnectionThatIsLostWhileItRestsIsNoticed) {
  listener->wait({});
  sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN %'");
  EXPECT_THROW(
      {
        listener->rest();
        listener->wait({});
      },
      Error);
}

}  // namespace
}  // namespace leasehold::testing
