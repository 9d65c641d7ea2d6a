// Texts that the encoding of a database cannot express, and transactions whose client_encoding is
// not ours.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "leasehold/postgres.hpp"
#include "leasehold/worker.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/postgres_tasks.hpp"
#include "tests/support/running_worker.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

/// The parameter is the encoding, which knows ü and not →.
class TaskEncodingTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    shared_postgres().run_sql("CREATE DATABASE " + database + " ENCODING '" + GetParam() +
                              "' LOCALE 'C' TEMPLATE template0");
    migrate(uri);
  }
  void TearDown() override { shared_postgres().drop_database(database); }

  static std::string reason() { return "has no equivalent in encoding \"" + GetParam() + "\""; }

  const std::string database = "encoded_" + std::to_string(::getpid());
  const std::string uri = shared_postgres().uri(database);
};
INSTANTIATE_TEST_SUITE_P(, TaskEncodingTest, ::testing::Values("LATIN1", "LATIN2", "WIN1252"),
                         [](const auto& each) { return each.param; });

TEST_P(TaskEncodingTest, AnOutcomeThatItCannotStoreIsAFailedAttempt) {
  TaskQueue queue{uri};
  Worker worker{queue, {.concurrency = 1, .prefetch = 0}};
  worker.on("throws", [](Task&) { throw std::runtime_error("a → b, Zürich"); },
            {.retry = Retry::after(1h)});
  worker.on("returns", [](Task& task) { task.set_result(R"("a → b")"); },
            {.retry = Retry::never()});
  worker.on("t", [](Task& task) { task.set_result(R"("Zürich")"); });
  const auto throws = queue.enqueue({.type = "throws"}).id;
  const auto returns = queue.enqueue({.type = "returns"}).id;
  const RunningWorker running{worker};
  ASSERT_TRUE(eventually([&] { return !queue.get(throws)->last_error.empty(); }, 60s));
  ASSERT_TRUE(eventually([&] { return !queue.get(returns)->last_error.empty(); }, 60s));
  const auto thrown = queue.get(throws);
  const auto returned = queue.get(returns);
  EXPECT_EQ(thrown->state, TaskState::pending);
  EXPECT_EQ(returned->state, TaskState::dead);
  for (const auto& record : {thrown, returned}) {
    EXPECT_EQ(record->attempts, 1);
    const std::string& error = record->last_error;
    EXPECT_TRUE(std::all_of(error.begin(), error.end(), [](char c) { return c > 0; })) << error;
    EXPECT_TRUE(contains(error, "could not be stored")) << error;
    EXPECT_TRUE(contains(error, reason())) << error;
  }
  EXPECT_TRUE(thrown->last_error.starts_with("a ??? b, Z??rich (")) << thrown->last_error;
  EXPECT_TRUE(returned->last_error.starts_with("the result ")) << returned->last_error;

  const auto next = queue.enqueue({.type = "t"}).id;
  EXPECT_TRUE(eventually([&] { return queue.get(next)->state == TaskState::completed; }, 60s));
  EXPECT_EQ(queue.get(next)->result, R"("Zürich")");
}

TEST_P(TaskEncodingTest, AnArgumentThatItCannotStoreIsRefusedWithTheReason) {
  TaskQueue queue{uri};
  try {
    queue.enqueue({.type = "t", .payload = R"("a → b")"});
    ADD_FAILURE() << "accepted";
  } catch (const ServerRefused& refused) {
    EXPECT_EQ(refused.reason(), ServerRefused::Reason::other);
    EXPECT_TRUE(contains(refused.what(), reason())) << refused.what();
  }
  EXPECT_NO_THROW(queue.enqueue({.type = "t", .payload = R"("Zürich")"}));
}

class CallersEncodingTest : public PostgresTaskTest {};

TEST_F(CallersEncodingTest, ATransactionThatWouldGarbleOurTextsIsRefused) {
  TaskQueue queue{uri()};
  queue.enqueue({.type = "t"});
  auto lease = lease_one(queue);
  pqxx::connection connection{uri()};
  pqxx::work transaction{connection};
  transaction.exec("SET client_encoding = 'LATIN1'");
  const std::function<void()> calls[] = {
      [&] { enqueue_in(transaction, queue, {.type = "ü"}); },
      [&] { complete_in(transaction, lease, R"("ü")"); },
      [&] { fence(transaction, "ü", {1}); },
  };
  for (const auto& call : calls) {
    const auto message = message_of<InvalidArgument>(call);
    EXPECT_TRUE(contains(message, "client_encoding")) << message;
    EXPECT_TRUE(contains(message, "LATIN1")) << message;
    EXPECT_TRUE(contains(message, "UTF8 or SQL_ASCII")) << message;
  }
  EXPECT_EQ(lease.extend(), LeaseWrite::accepted) << "the handle is as it was";
  EXPECT_EQ(sql("SELECT count(*) FROM leasehold.fences"), "0");
}

TEST_F(CallersEncodingTest, OurTextsArriveInTheEncodingsThatAreAllowed) {
  TaskQueue queue{uri()};
  for (const std::string encoding : {"UTF8", "SQL_ASCII"}) {
    pqxx::connection connection{uri()};
    connection.set_client_encoding(encoding.c_str());
    pqxx::work transaction{connection};
    const auto id = enqueue_in(transaction, queue, {.type = "ü", .payload = R"("→")"}).id;
    fence(transaction, "ü", {1});
    transaction.commit();
    EXPECT_EQ(queue.get(id)->type, "ü") << encoding;
    EXPECT_EQ(queue.get(id)->payload, R"("→")") << encoding;
  }
  EXPECT_EQ(sql("SELECT string_agg(resource, ',') FROM leasehold.fences"), "ü");
}

}  // namespace
}  // namespace leasehold::testing
