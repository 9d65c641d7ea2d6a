// Work in the caller's own transaction: together or not at all. And fencing tokens.
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <thread>
#include <vector>

#include "harness/temp_dir.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/lock_clients.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/own_transaction.hpp"
#include "tests/support/postgres_tasks.hpp"
#include "tests/support/refusal_of.hpp"
#include "tests/support/shared_servers.hpp"
#include "tests/support/sqlite_connection.hpp"
#include "tests/support/task_store.hpp"
#include "tests/support/test_namespace.hpp"
#include "tests/support/together.hpp"

namespace leasehold::testing {
namespace {

class TaskJoinTest : public OnEveryTaskStore {
 protected:
  TaskJoinTest() { sql("DROP TABLE IF EXISTS effects; CREATE TABLE effects (task bigint)"); }
  static std::string effects() { return sql("SELECT count(*) FROM effects"); }
  static void have_effect(const OwnTransaction& transaction, TaskId id) {
    transaction.execute("INSERT INTO effects VALUES (" + std::to_string(id.value) + ")");
  }
  static std::string refusal(const std::function<void()>& call) {
    return message_of<InvalidArgument>(call);
  }
  /// Leaves a transaction without a commit.
  struct Leave {};

  TaskQueue queue{uri()};
};
ON_EVERY_STORE(TaskJoinTest);

TEST_P(TaskJoinTest, ATaskIsEnqueuedWithTheCallersCommit) {
  Enqueued added;
  in_transaction(queue, [&](const OwnTransaction& transaction) {
    added = transaction.enqueue_in(queue, NewTask{.type = "t"});
    if (!in_memory()) {
      EXPECT_FALSE(queue.get(added.id)) << "not yet committed";
    }
  });
  auto lease = lease_one(queue);
  EXPECT_EQ(lease.id(), added.id);
  lease.complete();
}

TEST_P(TaskJoinTest, ARolledBackTaskWasNeverThere) {
  const auto leave = [&](const OwnTransaction& transaction) {
    transaction.enqueue_in(queue, std::vector<NewTask>(10, {.type = "t"}));
    throw Leave{};
  };
  EXPECT_THROW(in_transaction(queue, leave), Leave);
  EXPECT_EQ(sql("SELECT count(*) FROM leasehold.tasks"), "0");
}

TEST_P(TaskJoinTest, AUniqueKeyIsSeenInsideTheTransaction) {
  in_transaction(queue, [&](const OwnTransaction& transaction) {
    const NewTask task{.type = "t", .unique_key = "k"};
    const auto first = transaction.enqueue_in(queue, task);
    const auto second = transaction.enqueue_in(queue, task);
    EXPECT_EQ(second.outcome, Enqueued::Outcome::exists);
    EXPECT_EQ(second.id, first.id);
  });
}

TEST_P(TaskJoinTest, EffectAndCompletionCommitTogether) {
  const auto task = queue.enqueue({.type = "t"});
  auto lease = lease_one(queue);
  in_transaction(queue, [&](const OwnTransaction& transaction) {
    have_effect(transaction, task.id);
    transaction.complete_in(lease, R"({"ok":true})");
    if (!in_memory()) {
      EXPECT_EQ(queue.get(task.id)->state, TaskState::leased);
    }
  });
  EXPECT_EQ(queue.get(task.id)->state, TaskState::completed);
  EXPECT_EQ(queue.get(task.id)->result, R"({"ok":true})");
  EXPECT_EQ(effects(), "1");
}

TEST_P(TaskJoinTest, ARolledBackCompletionLeavesTheTaskToItsHolder) {
  const auto task = queue.enqueue({.type = "t"});
  auto lease = lease_one(queue);
  const auto leave = [&](const OwnTransaction& transaction) {
    have_effect(transaction, task.id);
    transaction.complete_in(lease);
    throw Leave{};
  };
  EXPECT_THROW(in_transaction(queue, leave), Leave);
  EXPECT_EQ(queue.get(task.id)->state, TaskState::leased);
  EXPECT_EQ(effects(), "0");
  EXPECT_EQ(lease.fail("rolled back", Retry::after(0ms)), FailOutcome::retried);
  lease_one(queue).complete();
}

TEST_P(TaskJoinTest, AStaleCompletionThrowsAndTakesTheEffectWithIt) {
  const auto task = queue.enqueue({.type = "t"});
  auto stale = lease_one(queue, "t", "first");
  expire(task.id);
  EXPECT_EQ(Recovery{queue}.run_once().requeued, 1U);
  auto held = lease_one(queue, "t", "second");

  const auto work = [&](TaskLease& lease) {
    in_transaction(queue, [&](const OwnTransaction& transaction) {
      have_effect(transaction, task.id);
      transaction.complete_in(lease);
    });
  };
  EXPECT_THROW(work(stale), LeaseLost);
  EXPECT_EQ(effects(), "0");
  EXPECT_EQ(queue.get(task.id)->state, TaskState::leased);
  work(held);
  EXPECT_EQ(effects(), "1");
  EXPECT_EQ(queue.stats().stale_writes, 1U);
}

// The lease expires while the transaction is open: nobody can take it until that has ended.
TEST_P(TaskJoinTest, RecoveryDoesNotTakeWhatIsBeingCompleted) {
  const auto task = queue.enqueue({.type = "t"});
  auto lease = lease_one(queue);
  expire(task.id);
  std::future<std::size_t> recovered;
  in_transaction(queue, [&](const OwnTransaction& transaction) {
    transaction.complete_in(lease);
    recovered =
        std::async(std::launch::async, [&] { return Recovery{queue}.run_once().tasks.size(); });
    // It passes over what is locked. In SQLite everybody waits for the end of this.
    if (in_postgres()) {
      EXPECT_EQ(recovered.wait_for(60s), std::future_status::ready);
    }
  });
  EXPECT_EQ(recovered.get(), 0U);
  EXPECT_EQ(queue.get(task.id)->state, TaskState::completed);
}

TEST_P(TaskJoinTest, DeletesIfThatIsTheRetention) {
  TaskQueue deleting{uri(), {.retention = Retention::delete_at_once()}};
  const auto task = deleting.enqueue({.type = "t"});
  auto lease = lease_one(deleting);
  in_transaction(deleting,
                 [&](const OwnTransaction& transaction) { transaction.complete_in(lease); });
  EXPECT_FALSE(deleting.get(task.id));
}

TEST_P(TaskJoinTest, TheHandleDoesNotWaitForItsOwnTransaction) {
  const auto task = queue.enqueue({.type = "t"});
  auto lease = std::make_optional(lease_one(queue));
  in_transaction(queue, [&](const OwnTransaction& transaction) {
    transaction.complete_in(*lease);
    lease.reset();  // its destructor would wait for the row, for ever
  });
  EXPECT_EQ(queue.get(task.id)->state, TaskState::completed);
}

TEST_P(TaskJoinTest, ProgressAfterTheCompletionIsRefused) {
  const auto task = queue.enqueue({.type = "t"});
  auto lease = lease_one(queue);
  in_transaction(queue, [&](const OwnTransaction& transaction) {
    transaction.complete_in(lease);
    const std::string refused = refusal([&] { lease.progress("1"); });
    EXPECT_TRUE(contains(refused, "after complete_in()")) << refused;
  });
  EXPECT_EQ(queue.get(task.id)->state, TaskState::completed);
}

TEST_P(TaskJoinTest, RenewalAfterTheCompletionIsRefusedOrPassedOver) {
  const auto task = queue.enqueue({.type = "t"});
  auto lease = lease_one(queue);
  in_transaction(queue, [&](const OwnTransaction& transaction) {
    transaction.complete_in(lease);
    const std::string refused = refusal([&] { lease.extend(); });
    EXPECT_TRUE(contains(refused, "after complete_in()")) << refused;
    EXPECT_TRUE(queue.extend({&lease, 1}).empty()) << "it is not stale either";
  });
  EXPECT_EQ(queue.get(task.id)->state, TaskState::completed);
}

TEST_P(TaskJoinTest, AStaleTokenIsRefused) {
  const auto write = [&](FencingToken token) {
    in_transaction(queue, [&](const OwnTransaction& transaction) {
      transaction.fence("invoice:42", token);
      have_effect(transaction, TaskId{0});
    });
  };
  write({100});
  write({100});
  write({101});
  EXPECT_THROW(write({100}), StaleToken);
  EXPECT_EQ(effects(), "3");
  in_transaction(queue, [&](const OwnTransaction& transaction) {
    transaction.fence("another", {1});
    EXPECT_THROW(transaction.fence("", {1}), InvalidArgument);
    EXPECT_THROW(transaction.fence("x", {1ULL << 63}), InvalidArgument);
  });
}

TEST_P(TaskJoinTest, AFenceIsRolledBackWithItsTransaction) {
  const auto leave = [&](const OwnTransaction& transaction) {
    transaction.fence("r", {200});
    throw Leave{};
  };
  EXPECT_THROW(in_transaction(queue, leave), Leave);
  in_transaction(queue, [&](const OwnTransaction& transaction) { transaction.fence("r", {100}); });
}

// The old holder fenced first and is still writing: the new one waits for the end of it, so that
// the old one's write can not come after the new one's.
TEST_P(TaskJoinTest, ANewerTokenWaitsForATransactionUnderWay) {
  std::future<void> newer;
  in_transaction(queue, [&](const OwnTransaction& old_holder) {
    old_holder.fence("r", {1});
    newer = std::async(std::launch::async, [&] {
      in_transaction(queue, [](const OwnTransaction& new_holder) {
        new_holder.fence("r", {2});
        have_effect(new_holder, TaskId{2});
      });
    });
    if (in_postgres()) {
      EXPECT_TRUE(eventually([&] {
        return sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query "
                   "LIKE '%fence%' AND datname = current_database()") == "1";
      }));
    } else {
      EXPECT_EQ(newer.wait_for(50ms), std::future_status::timeout);
    }
    have_effect(old_holder, TaskId{1});
  });
  newer.get();
  EXPECT_EQ(sql("SELECT task FROM effects"), "1\n2") << "in the order in which they were written";
  const auto late = [](const OwnTransaction& transaction) { transaction.fence("r", {1}); };
  EXPECT_THROW(in_transaction(queue, late), StaleToken);
}

TEST_P(TaskJoinTest, TransactionsOfAnotherStoreAreRefused) {
  const auto task = queue.enqueue({.type = "t"});
  auto lease = lease_one(queue);
  std::vector<std::string> messages;
  if (in_postgres()) {
    const auto other = connect_to(":memory:");
    messages.push_back(refusal([&] { enqueue_in(other.get(), queue, {.type = "t"}); }));
    messages.push_back(refusal([&] { complete_in(other.get(), lease); }));
    messages.push_back(refusal([&] { transact(queue, [](sqlite3*) {}); }));
  } else {
    pqxx::connection connection{shared_postgres().uri()};
    pqxx::work other{connection};
    messages.push_back(refusal([&] { enqueue_in(other, queue, {.type = "t"}); }));
    messages.push_back(refusal([&] { complete_in(other, lease); }));
  }
  const std::string header = in_postgres() ? "postgres.hpp" : "sqlite.hpp";
  for (const auto& message : messages) {
    EXPECT_TRUE(contains(message, "use the functions of leasehold/" + header)) << message;
  }
  EXPECT_EQ(lease.complete(), LeaseWrite::accepted) << "nothing was done";
  EXPECT_EQ(queue.get(task.id)->state, TaskState::completed);
}

/// What only an embedded queue can be asked.
class EmbeddedJoinTest : public TaskJoinTest {};
ON_STORES(EmbeddedJoinTest, StoreKind::sqlite_memory, StoreKind::sqlite_file);

TEST_P(EmbeddedJoinTest, AConnectionThatIsNotInTheQueuesFileIsRefused) {
  queue.enqueue({.type = "t"});
  auto lease = lease_one(queue);
  const auto elsewhere = connect_to(":memory:");
  const OwnTransaction other{elsewhere.get()};
  other.execute("BEGIN IMMEDIATE");
  const std::string words = in_memory() ? "use transact()" : "the queue is in sqlite:";
  EXPECT_TRUE(contains(refusal([&] { other.complete_in(lease); }), words));
  EXPECT_TRUE(contains(refusal([&] { other.enqueue_in(queue, NewTask{.type = "t"}); }), words));
  EXPECT_EQ(lease.complete(), LeaseWrite::accepted) << "the handle is as it was";
}

TEST_P(EmbeddedJoinTest, CallsOfTheQueueInsideItsOwnTransactionAreRefused) {
  const auto task = queue.enqueue({.type = "t"});
  auto lease = lease_one(queue);
  transact(queue, [&](sqlite3* connection) {
    for (const auto& message :
         {refusal([&] { queue.enqueue({.type = "t"}); }), refusal([&] { queue.get(task.id); }),
          refusal([&] { lease.extend(); }), refusal([&] { transact(queue, [](sqlite3*) {}); })}) {
      EXPECT_TRUE(contains(message, "called inside transact()")) << message;
    }
    complete_in(connection, lease);
  });
  EXPECT_EQ(queue.get(task.id)->state, TaskState::completed);
  queue.enqueue({.type = "t"});  // and afterwards it is free again
}

TEST_P(EmbeddedJoinTest, LocksOfTheSameDatabaseInsideItsTransactionAreRefused) {
  LockClient locks{uri(), as_new_runner()};
  auto held = std::make_optional(locks.acquire("held").value());
  transact(queue, [&](sqlite3*) {
    const std::string message = refusal([&] { locks.acquire("lock"); });
    EXPECT_TRUE(contains(message, "called inside transact()")) << message;
    if (in_memory()) {
      EXPECT_TRUE(contains(refusal([&] { locks.status("held"); }), "called inside transact()"));
      EXPECT_TRUE(
          contains(refusal([&] { LockClient another{uri()}; }), "called inside transact()"));
    } else {
      EXPECT_TRUE(locks.status("held")) << "reading waits for nobody";
      TaskQueue another{uri()};
      EXPECT_TRUE(
          contains(refusal([&] { another.enqueue({.type = "t"}); }), "called inside transact()"));
    }
    held.reset();  // a destructor throws nothing: it is released afterwards
  });
  EXPECT_TRUE(eventually([&] { return !locks.status("held"); }));
  EXPECT_TRUE(locks.acquire("lock"));
}

TEST_P(EmbeddedJoinTest, TransactionsOfTwoQueuesCanBeNested) {
  const TempDir dir;
  TaskQueue other{in_memory() ? "sqlite::memory:other"
                              : "sqlite:" + (dir.path() / "other.db").string()};
  transact(queue, [&](sqlite3* outer) {
    transact(other, [&](sqlite3* inner) {
      enqueue_in(inner, other, {.type = "inner"});
      enqueue_in(outer, queue, {.type = "first"});
      EXPECT_TRUE(contains(refusal([&] { queue.get(TaskId{1}); }), "called inside transact()"));
    });
    enqueue_in(outer, queue, {.type = "second"});
    EXPECT_TRUE(contains(refusal([&] { queue.get(TaskId{1}); }), "called inside transact()"));
    EXPECT_EQ(other.list().size(), 1U);
  });
  EXPECT_EQ(queue.list().size(), 2U);
}

TEST_P(EmbeddedJoinTest, WhatTransactThrowsRollsBackAndIsThrownOn) {
  const auto leave = [&](sqlite3* connection) {
    have_effect(OwnTransaction{connection}, TaskId{1});
    enqueue_in(connection, queue, {.type = "t"});
    throw Leave{};
  };
  EXPECT_THROW(transact(queue, leave), Leave);
  EXPECT_EQ(effects(), "0");
  EXPECT_TRUE(queue.counts().empty());
}

/// What only a file can be asked.
class FileJoinTest : public TaskJoinTest {};
ON_STORES(FileJoinTest, StoreKind::sqlite_file);

TEST_P(FileJoinTest, WithoutATransactionItIsRefused) {
  queue.enqueue({.type = "t"});
  auto lease = lease_one(queue);
  const auto connection = connect();
  for (const auto& message : {refusal([&] { complete_in(connection.get(), lease); }),
                              refusal([&] { enqueue_in(connection.get(), queue, {.type = "t"}); }),
                              refusal([&] { fence(connection.get(), "r", {1}); })}) {
    EXPECT_TRUE(contains(message, "BEGIN IMMEDIATE")) << message;
  }
  EXPECT_EQ(lease.complete(), LeaseWrite::accepted);
}

TEST_P(FileJoinTest, FencingAFileWithoutOurTablesSaysSo) {
  const auto connection = connect_to(":memory:");
  OwnTransaction{connection.get()}.execute("BEGIN");
  EXPECT_EQ(refusal_of([&] { fence(connection.get(), "r", {1}); }),
            ServerRefused::Reason::no_schema);
}

TEST_P(FileJoinTest, ATransactionThatCanNotWriteAnyMoreIsUnavailable) {
  queue.enqueue({.type = "t"});
  auto lease = lease_one(queue);
  const auto connection = connect();
  const OwnTransaction late{connection.get()};
  late.execute("BEGIN; SELECT count(*) FROM effects");
  queue.enqueue({.type = "t"});  // after it has read
  const auto message = message_of<Unavailable>([&] { late.complete_in(lease); });
  EXPECT_TRUE(contains(message, "BEGIN IMMEDIATE")) << message;
  late.execute("ROLLBACK");
  EXPECT_EQ(lease.fail("rolled back", Retry::after(0ms)), FailOutcome::retried);
}

// The file of a program that had it before: refused until migrate() was asked to add our tables.
TEST_P(FileJoinTest, TheDatabaseOfAProgramCanBeJoined) {
  const TempDir dir;
  const std::string path = (dir.path() / "app.db").string();
  const auto connection = connect_to(path);
  const OwnTransaction app{connection.get()};
  app.execute("PRAGMA application_id = 77; CREATE TABLE accounts (balance bigint)");
  EXPECT_THROW(TaskQueue{"sqlite:" + path}, ServerRefused);
  EXPECT_EQ(migrate("sqlite:" + path).from, 0);
  EXPECT_GE(migrate("sqlite:" + path).from, 1);
  TaskQueue tasks{"sqlite:" + path};
  tasks.enqueue({.type = "t"});
  auto lease = lease_one(tasks);
  app.execute("BEGIN IMMEDIATE; INSERT INTO accounts VALUES (1)");
  app.complete_in(lease);
  app.execute("COMMIT");
  EXPECT_EQ(tasks.get(lease.id())->state, TaskState::completed);
}

/// What only PostgreSQL can be asked: it locks rows and not everything.
class ServerJoinTest : public PostgresTaskTest {
 protected:
  TaskQueue queue{uri()};
  pqxx::connection connection{uri()};
};

TEST_F(ServerJoinTest, ErrorsAreOurs) {
  pqxx::work transaction{connection};
  TaskQueue elsewhere{uri(), {.postgres = {.schema = "no_such_schema"}}};
  EXPECT_EQ(refusal_of([&] { enqueue_in(transaction, elsewhere, {.type = "t"}); }),
            ServerRefused::Reason::no_schema);
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

TEST_F(ServerJoinTest, WhatIsCommittedAtOnceMayHaveHappenedWhenTheConnectionIsLost) {
  pqxx::nontransaction transaction{connection};
  sql("SELECT pg_terminate_backend(" + std::to_string(connection.backendpid()) + ")");
  EXPECT_TRUE(eventually([&] {
    try {
      enqueue_in(transaction, queue, {.type = "t"});
    } catch (const OutcomeUnknown&) {
      return true;
    }
    return false;  // the server has not looked up yet
  }));
}

class Ear : public pqxx::notification_receiver {
 public:
  explicit Ear(pqxx::connection& connection) : notification_receiver(connection, "leasehold") {}
  void operator()(const std::string&, int) override { ++heard; }
  int heard = 0;
};

TEST_F(ServerJoinTest, WorkersAreToldOnceOfMany) {
  Ear ear{connection};
  queue.enqueue(std::vector<NewTask>(100, {.type = "t"}));
  EXPECT_TRUE(eventually([&] {
    connection.get_notifs();
    return ear.heard >= 1;
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

}  // namespace
}  // namespace leasehold::testing
