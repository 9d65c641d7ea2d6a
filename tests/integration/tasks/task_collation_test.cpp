// A database that sorts texts as people do. Types and keys are compared byte by byte all the same:
// the order of an index must not change with a new version of a library for languages.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/postgres_tasks.hpp"
#include "tests/support/shared_servers.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

class TaskCollationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    shared_postgres().run_sql("CREATE DATABASE " + database +
                              " LOCALE_PROVIDER icu ICU_LOCALE 'en' ENCODING 'UTF8' "
                              "LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
    ASSERT_EQ(sql("SELECT string_agg(t, ',' ORDER BY t) FROM unnest('{Z,B,a}'::text[]) t"), "a,B,Z")
        << "this database sorts as people do";
    migrate(uri);
  }
  void TearDown() override { shared_postgres().drop_database(database); }

  std::string sql(const std::string& statement) const {
    return shared_postgres().run_sql(statement, database);
  }

  const std::string database = "sorted_" + std::to_string(::getpid());
  const std::string uri = shared_postgres().uri(database);
};

TEST_F(TaskCollationTest, TypesAndKeysAreSortedByTheirBytes) {
  TaskQueue queue{uri};
  // Composed and decomposed, which look alike.
  const std::vector<std::string> in_order{"B", "Z", "a", "e\u0301", "z", "\u00e9"};
  std::vector<NewTask> tasks;
  for (auto name = in_order.rbegin(); name != in_order.rend(); ++name) {
    tasks.push_back({.type = *name, .unique_key = *name});
  }
  for (const Enqueued& answer : queue.enqueue(tasks)) {
    EXPECT_EQ(answer.outcome, Enqueued::Outcome::added);
  }
  for (const Enqueued& answer : queue.enqueue(tasks)) {
    EXPECT_EQ(answer.outcome, Enqueued::Outcome::exists);
  }
  std::string joined;
  for (const auto& name : in_order) joined += (joined.empty() ? "" : ",") + name;
  EXPECT_EQ(sql("SELECT string_agg(type, ',') FROM leasehold.pending_heads()"), joined);
  EXPECT_EQ(sql("SELECT string_agg(unique_key, ',' ORDER BY unique_key) FROM leasehold.tasks"),
            joined);
  const auto types_of_counts = [&] {
    std::vector<std::string> types;
    for (const auto& count : queue.counts()) types.push_back(count.type);
    return types;
  };
  EXPECT_EQ(types_of_counts(), in_order);

  // Where searches can begin is noted, and the next ones use it.
  sql("SELECT leasehold.note_heads(ARRAY(SELECT h FROM leasehold.pending_heads() h), "
      "interval '1 s')");
  EXPECT_EQ(sql("SELECT string_agg(type, ',') FROM leasehold.pending_heads()"), joined);

  auto leases = queue.lease({.types = in_order, .limit = 100});
  EXPECT_EQ(leases.size(), in_order.size());
  EXPECT_TRUE(queue.extend(leases).empty());
  EXPECT_TRUE(queue.complete(leases).empty());
  EXPECT_EQ(types_of_counts(), in_order) << "of finished ones too";
}

TEST_F(TaskCollationTest, EveryTextInAnIndexIsComparedByItsBytes) {
  EXPECT_EQ(sql("SELECT string_agg(c.relname || '.' || a.attname, ' ' ORDER BY 1) "
                "FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
                "JOIN pg_attribute a ON a.attrelid = i.indexrelid "
                "WHERE c.relnamespace = 'leasehold'::regnamespace AND a.atttypid = 'text'::regtype "
                "AND a.attcollation <> '\"C\"'::regcollation"),
            "");
}

}  // namespace
}  // namespace leasehold::testing
