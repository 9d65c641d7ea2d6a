// Work in the caller's own transaction: together or not at all. And fencing tokens.
#include <gtest/gtest.h>

#include <future>
#include <leasehold/postgres.hpp>
#include <thread>

#include "task_fixture.hpp"

namespace leasehold {
namespace {

class TaskJoinTest : public TaskTest {
 protected:
  void SetUp() override {
    TaskTest::SetUp();
    sql("SET client_min_messages = warning; DROP TABLE IF EXISTS public.effects;"
        "CREATE TABLE public.effects (task bigint)");
  }
  static std::string effects() { return sql("SELECT count(*) FROM public.effects"); }
  static void have_effect(pqxx::transaction_base& transaction, TaskId id) {
    transaction.exec("INSERT INTO public.effects VALUES (" + std::to_string(id.value) + ")");
  }

  TaskQueue queue{uri()};
  pqxx::connection connection{uri()};
};

TEST_F(TaskJoinTest, ATaskIsEnqueuedWithTheCallersCommit) {
  pqxx::work transaction{connection};
  const auto added = enqueue_in(transaction, queue, {.type = "t"});
  EXPECT_TRUE(queue.lease({.types = {"t"}}).empty()) << "not yet committed";
  transaction.commit();
  auto lease = lease_one(queue);
  EXPECT_EQ(lease.id(), added.id);
  lease.complete();
}

TEST_F(TaskJoinTest, ARolledBackTaskWasNeverThere) {
  {
    pqxx::work transaction{connection};
    enqueue_in(transaction, queue, std::vector<NewTask>(10, {.type = "t"}));
  }
  EXPECT_EQ(sql("SELECT count(*) FROM leasehold.tasks"), "0");
}

TEST_F(TaskJoinTest, AUniqueKeyIsSeenInsideTheTransaction) {
  pqxx::work transaction{connection};
  const NewTask task{.type = "t", .unique_key = "k"};
  const auto first = enqueue_in(transaction, queue, task);
  const auto second = enqueue_in(transaction, queue, task);
  EXPECT_EQ(second.outcome, Enqueued::Outcome::exists);
  EXPECT_EQ(second.id, first.id);
}

TEST_F(TaskJoinTest, EffectAndCompletionCommitTogether) {
  const auto task = queue.enqueue({.type = "t"});
  auto lease = lease_one(queue);
  pqxx::work transaction{connection};
  have_effect(transaction, task.id);
  complete_in(transaction, lease, R"({"ok":true})");
  EXPECT_EQ(queue.get(task.id)->state, TaskState::leased);
  transaction.commit();
  EXPECT_EQ(queue.get(task.id)->state, TaskState::completed);
  EXPECT_EQ(queue.get(task.id)->result, R"({"ok":true})");
  EXPECT_EQ(effects(), "1");
}

TEST_F(TaskJoinTest, ARolledBackCompletionLeavesTheTaskToItsHolder) {
  const auto task = queue.enqueue({.type = "t"});
  auto lease = lease_one(queue);
  {
    pqxx::work transaction{connection};
    have_effect(transaction, task.id);
    complete_in(transaction, lease);
  }
  EXPECT_EQ(queue.get(task.id)->state, TaskState::leased);
  EXPECT_EQ(effects(), "0");
  EXPECT_EQ(lease.fail("rolled back", Retry::after(0ms)), FailOutcome::retried);
  lease_one(queue).complete();
}

TEST_F(TaskJoinTest, AStaleCompletionThrowsAndTakesTheEffectWithIt) {
  const auto task = queue.enqueue({.type = "t"});
  auto stale = lease_one(queue, "t", "first");
  expire(task.id);
  EXPECT_EQ(Recovery{queue}.run_once().requeued, 1U);
  auto held = lease_one(queue, "t", "second");

  const auto work = [&](TaskLease& lease) {
    pqxx::work transaction{connection};
    have_effect(transaction, task.id);
    complete_in(transaction, lease);
    transaction.commit();
  };
  EXPECT_THROW(work(stale), LeaseLost);
  EXPECT_EQ(effects(), "0");
  EXPECT_EQ(queue.get(task.id)->state, TaskState::leased);
  work(held);
  EXPECT_EQ(effects(), "1");
  EXPECT_EQ(queue.stats().stale_writes, 1U);
}

TEST_F(TaskJoinTest, DeletesIfThatIsTheRetention) {
  TaskQueue deleting{uri(), {.retention = Retention::delete_at_once()}};
  const auto task = deleting.enqueue({.type = "t"});
  auto lease = lease_one(deleting);
  pqxx::work transaction{connection};
  complete_in(transaction, lease);
  transaction.commit();
  EXPECT_FALSE(deleting.get(task.id));
}

// The lease expires while the transaction is open: nobody can take it until that has ended.
TEST_F(TaskJoinTest, RecoveryDoesNotTakeWhatIsBeingCompleted) {
  const auto task = queue.enqueue({.type = "t"});
  auto lease = lease_one(queue);
  expire(task.id);
  pqxx::work transaction{connection};
  complete_in(transaction, lease);
  EXPECT_TRUE(Recovery{queue}.run_once().tasks.empty());
  transaction.commit();
  EXPECT_EQ(queue.get(task.id)->state, TaskState::completed);
}

TEST_F(TaskJoinTest, TheHandleDoesNotWaitForItsOwnTransaction) {
  const auto task = queue.enqueue({.type = "t"});
  pqxx::work transaction{connection};
  {
    auto lease = lease_one(queue);
    complete_in(transaction, lease);
  }  // its destructor would wait for the row, for ever
  transaction.commit();
  EXPECT_EQ(queue.get(task.id)->state, TaskState::completed);
}

TEST_F(TaskJoinTest, ErrorsAreOurs) {
  pqxx::work transaction{connection};
  TaskQueue elsewhere{uri(), {.postgres = {.schema = "no_such_schema"}}};
  try {
    enqueue_in(transaction, elsewhere, {.type = "t"});
    FAIL() << "accepted";
  } catch (const ServerRefused& error) {
    EXPECT_EQ(error.reason(), ServerRefused::Reason::no_schema) << error.what();
  }
  sql("SELECT pg_terminate_backend(" + std::to_string(connection.backendpid()) + ")");
  EXPECT_TRUE(eventually([&] {
    try {
      enqueue_in(transaction, queue, {.type = "t"});
    } catch (const Unavailable&) {
      return true;
    } catch (const ServerRefused&) {
      return false;  // the aborted transaction; the end of the connection has not arrived yet
    }
    return false;
  }));
}

class Ear : public pqxx::notification_receiver {
 public:
  explicit Ear(pqxx::connection& connection) : notification_receiver(connection, "leasehold") {}
  void operator()(const std::string&, int) override { ++heard; }
  int heard = 0;
};

TEST_F(TaskJoinTest, WorkersAreToldOnceOfMany) {
  Ear ear{connection};
  queue.enqueue(std::vector<NewTask>(100, {.type = "t"}));
  EXPECT_TRUE(eventually([&] {
    connection.get_notifs();
    return ear.heard > 0;
  }));
  TaskQueue silent{uri(), {.notify = Notify::off}};
  silent.enqueue({.type = "t"});
  // One more that is told: what came before it has arrived then.
  queue.enqueue({.type = "t"});
  EXPECT_TRUE(eventually([&] {
    connection.get_notifs();
    return ear.heard > 1;
  }));
  EXPECT_EQ(ear.heard, 2);
}

TEST_F(TaskJoinTest, AStaleTokenIsRefused) {
  const auto write = [&](FencingToken token) {
    pqxx::work transaction{connection};
    fence(transaction, "invoice:42", token);
    have_effect(transaction, TaskId{0});
    transaction.commit();
  };
  write({100});
  write({100});
  write({101});
  EXPECT_THROW(write({100}), StaleToken);
  EXPECT_EQ(effects(), "3");
  pqxx::work transaction{connection};
  fence(transaction, "another", {1});
  EXPECT_THROW(fence(transaction, "", {1}), InvalidArgument);
  EXPECT_THROW(fence(transaction, "x", {1ULL << 63}), InvalidArgument);
}

// The old holder fenced first and is still writing: the new one waits for the end of it, so that
// the old one's write can not come after the new one's.
TEST_F(TaskJoinTest, ANewerTokenWaitsForATransactionUnderWay) {
  pqxx::work old_holder{connection};
  fence(old_holder, "r", {1});
  pqxx::connection other{uri()};
  auto newer = std::async(std::launch::async, [&] {
    pqxx::work transaction{other};
    fence(transaction, "r", {2});
    transaction.commit();
  });
  EXPECT_TRUE(eventually([&] {
    return sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query "
               "LIKE '%fence%' AND pid = " +
               std::to_string(other.backendpid())) == "1";
  }));
  old_holder.commit();
  newer.get();
  pqxx::work late{connection};
  EXPECT_THROW(fence(late, "r", {1}), StaleToken);
}

}  // namespace
}  // namespace leasehold
