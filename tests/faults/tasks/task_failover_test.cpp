// The primary is lost and the standby takes its place: the same queue works again by itself.
#include <gtest/gtest.h>

#include <leasehold/tasks.hpp>
#include <string>

#include "harness/postgres_pair.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

/// Whether a task can be enqueued.
bool accepts(TaskQueue& queue) {
  try {
    queue.enqueue({.type = "t"});
    return true;
  } catch (const Error&) {
    return false;
  }
}

class TaskFailoverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    migrate(pair.primary().uri());
    pair.await_caught_up();
  }

  PostgresPair pair;
};

TEST_F(TaskFailoverTest, TheQueueFindsThePrimaryWhereverItIsInTheList) {
  for (const auto& uri : {pair.uri(), pair.uri_standby_first()}) {
    TaskQueue queue{uri};
    EXPECT_NO_THROW(queue.enqueue({.type = "t"})) << uri;
  }
}

TEST_F(TaskFailoverTest, WithoutAPrimaryTheErrorSaysWhyNot) {
  TaskQueue queue{pair.uri()};
  pair.primary().kill();
  try {
    queue.get(TaskId{1});
    ADD_FAILURE() << "the standby was used";
  } catch (const Unavailable& error) {
    const std::string words = error.what();
    for (const auto* server : {&pair.primary(), &pair.standby()}) {
      EXPECT_NE(words.find("port " + std::to_string(server->port())), std::string::npos) << words;
    }
  }
  TaskQueue only_standby{pair.standby().uri()};
  EXPECT_NO_THROW(only_standby.get(TaskId{1})) << "a single host may be read";
  try {
    only_standby.enqueue({.type = "t"});
    ADD_FAILURE() << "a standby accepted it";
  } catch (const ServerRefused& refused) {
    EXPECT_EQ(refused.reason(), ServerRefused::Reason::read_only) << refused.what();
  }
  pair.promote();
  EXPECT_TRUE(eventually([&] { return accepts(only_standby); }, 60s));
}

TEST_F(TaskFailoverTest, TheSameQueueWorksAgainAfterTheStandbyWasPromoted) {
  TaskQueue queue{pair.uri(), {.postgres = {.connections = 2, .command_timeout = 5s}}};
  const TaskId kept = queue.enqueue({.type = "t"}).id;
  pair.await_caught_up();
  pair.primary().kill();
  EXPECT_FALSE(accepts(queue));
  pair.promote();
  EXPECT_TRUE(eventually([&] { return accepts(queue); }, 60s));
  EXPECT_TRUE(queue.get(kept));
}

TEST_F(TaskFailoverTest, TheQueueLeavesTheStandbyOnceThePrimaryIsBack) {
  pair.primary().kill();
  TaskQueue queue{pair.uri_standby_first()};
  EXPECT_FALSE(accepts(queue));
  EXPECT_FALSE(accepts(queue));
  pair.primary().start();
  EXPECT_TRUE(eventually([&] { return accepts(queue); }, 60s));
}

TEST_F(TaskFailoverTest, APrimaryThatHangsIsLeftForThePromotedStandby) {
  TaskQueue queue{pair.uri(),
                  {.postgres = {.connections = 2, .connect_timeout = 1s, .command_timeout = 1s}}};
  ASSERT_TRUE(accepts(queue));
  pair.primary().pause();  // its connections stay open, and it even accepts new ones
  pair.promote();
  EXPECT_TRUE(eventually([&] { return accepts(queue); }, 60s));
  pair.primary().resume();
}

TEST_F(TaskFailoverTest, AStandbyThatWasCutOffLosesCommits) {
  TaskQueue queue{pair.uri()};
  pair.await_caught_up();
  pair.cut_replication();
  const TaskId lost = queue.enqueue({.type = "t"}).id;
  pair.primary().kill();
  pair.promote();
  EXPECT_TRUE(eventually([&] { return accepts(queue); }, 60s));
  EXPECT_EQ(pair.standby().run_sql("SELECT count(*) FROM leasehold.tasks WHERE created_at < "
                                   "(SELECT max(created_at) FROM leasehold.tasks)"),
            "0")
      << "task " << lost.value << " was lost";
}

}  // namespace
}  // namespace leasehold::testing
