// Lists of tasks: by state, type and worker, in pages, with and without payloads.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/refusal_of.hpp"
#include "tests/support/sql_files.hpp"
#include "tests/support/task_store.hpp"

namespace leasehold::testing {
namespace {

class TaskListTest : public OnEveryTaskStore {
 protected:
  /// Some tasks of two types in every state, beginning with the finished ones.
  void add_all_states() {
    for (const std::string type : {"a", "b"}) {
      queue.enqueue(std::vector<NewTask>(6, {.type = type}));
      lease_one(queue, type, "completed " + type).complete();
      lease_one(queue, type, "dead " + type).fail("no", Retry::never());
      auto cancelled = lease_one(queue, type, "cancelled " + type);
      queue.cancel(cancelled.id());
      cancelled.abandon();
      lease_one(queue, type, "leased " + type).abandon();
    }
  }
  std::vector<TaskId> ids(const TaskFilter& filter) {
    std::vector<TaskId> found;
    for (const auto& task : queue.list(filter)) found.push_back(task.id);
    return found;
  }

  static constexpr TaskState states[] = {TaskState::pending, TaskState::leased,
                                         TaskState::completed, TaskState::dead,
                                         TaskState::cancelled};
  TaskQueue queue{uri()};
};
ON_EVERY_STORE(TaskListTest);

TEST_P(TaskListTest, EveryFilterSelectsWhatItSays) {
  add_all_states();
  const auto all = queue.list();
  ASSERT_EQ(all.size(), 12U);
  const std::vector<std::optional<std::string>> types{std::nullopt, "a", "b"};
  const std::vector<std::optional<std::string>> workers{std::nullopt, "nobody", "leased a",
                                                        "dead b"};
  for (const auto state : states) {
    for (const auto& type : types) {
      for (const auto& worker : workers) {
        for (const TaskId after : {TaskId{0}, all[5].id}) {
          std::vector<TaskId> expected;
          for (const auto& task : all) {
            if (task.state == state && (!type || task.type == *type) &&
                (!worker || task.leased_by == *worker) && task.id > after) {
              expected.push_back(task.id);
            }
          }
          EXPECT_EQ(ids({.state = state, .type = type, .worker = worker, .after = after}), expected)
              << to_string(state) << " " << type.value_or("-") << " " << worker.value_or("-");
        }
      }
    }
  }
}

TEST_P(TaskListTest, PagesOfEveryStateAreInOrderOfId) {
  // Tasks that were added last are due first.
  for (int i = 0; i < 5; ++i) queue.enqueue({.type = "t", .priority = i});
  const auto page_by_page = [&](TaskState state) {
    std::vector<TaskId> found;
    for (TaskId last{0};; last = found.back()) {
      const auto page = ids({.state = state, .after = last, .limit = 2});
      EXPECT_LE(page.size(), 2U);
      if (page.empty()) return found;
      found.insert(found.end(), page.begin(), page.end());
    }
  };
  const auto all = ids({});
  ASSERT_EQ(all.size(), 5U);
  EXPECT_EQ(page_by_page(TaskState::pending), all);
  auto leases = queue.lease({.types = {"t"}, .limit = 5});
  EXPECT_EQ(page_by_page(TaskState::leased), all);
  for (auto& lease : leases) lease.complete();
  EXPECT_EQ(page_by_page(TaskState::completed), all);
}

TEST_P(TaskListTest, WithoutPayloadsTheRestIsTheSame) {
  const TaskId id = queue.enqueue({.type = "t", .payload = "[1]", .unique_key = "k"}).id;
  auto lease = lease_one(queue);
  lease.progress("[2]");
  const auto check = [&](TaskState state) {
    for (const auto by_state : {std::optional<TaskState>{}, std::optional{state}}) {
      const auto with = queue.list({.state = by_state});
      const auto without = queue.list({.state = by_state, .payloads = Payloads::without});
      ASSERT_EQ(with.size(), 1U) << to_string(state);
      ASSERT_EQ(without.size(), 1U) << to_string(state);
      EXPECT_EQ(with[0].payload, "[1]");
      EXPECT_EQ(with[0].progress, "[2]");
      EXPECT_EQ(without[0].id, id);
      EXPECT_EQ(without[0].payload, "");
      EXPECT_FALSE(without[0].progress);
      EXPECT_FALSE(without[0].result);
      EXPECT_EQ(without[0].state, state);
      EXPECT_EQ(without[0].version, with[0].version);
      EXPECT_EQ(without[0].unique_key, "k");
      EXPECT_EQ(without[0].leased_by, with[0].leased_by);
      EXPECT_EQ(without[0].created_at, with[0].created_at);
    }
  };
  check(TaskState::leased);
  lease.release();
  check(TaskState::pending);
  lease_one(queue).complete("[3]");
  check(TaskState::completed);
  EXPECT_EQ(queue.list({.state = TaskState::completed})[0].result, "[3]");
}

// A newer version may have states of its own. Whoever asks for such a task is refused; everything
// else goes on.
TEST_P(TaskListTest, AStateThatIsUnknownIsARefusal) {
  const TaskId id = queue.enqueue({.type = "t"}).id;
  queue.cancel(id);
  queue.enqueue({.type = "t"});
  sql(in_postgres()
          ? "CREATE TABLE leasehold.finished_paused PARTITION OF leasehold.finished_tasks "
            "FOR VALUES IN ('paused');"
            "UPDATE leasehold.finished_tasks SET state = 'paused'"
          : "PRAGMA ignore_check_constraints = on;"
            "UPDATE leasehold.tasks SET state = 'paused' WHERE state = 'cancelled';"
            "PRAGMA ignore_check_constraints = off");
  EXPECT_EQ(refusal_of([&] { queue.get(id); }, "paused"), ServerRefused::Reason::newer_schema);
  EXPECT_EQ(refusal_of([&] { queue.list(); }, "paused"), ServerRefused::Reason::newer_schema);
  EXPECT_EQ(queue.list({.state = TaskState::pending}).size(), 1U);
  EXPECT_EQ(queue.counts().size(), 1U);
  const auto refused = [](const auto& call) {
    return refusal_of(call, "paused") == ServerRefused::Reason::newer_schema;
  };
  if (in_postgres()) {
    EXPECT_EQ(queue.retry(id), RetryOutcome::not_dead);
    EXPECT_EQ(queue.cancel(id), CancelOutcome::finished);
  } else {
    EXPECT_TRUE(refused([&] { queue.retry(id); }));
    EXPECT_TRUE(refused([&] { queue.cancel(id); }));
  }
  EXPECT_EQ(queue.remove_finished({.completed = 1ms, .dead = 1ms}), 0U);
  EXPECT_EQ(lease_one(queue).complete(), LeaseWrite::accepted);
}

/// In SQLite a list by state reads an index that has this state only.
class EmbeddedListTest : public OnEveryTaskStore {};
ON_STORES(EmbeddedListTest, StoreKind::sqlite_memory);

TEST_P(EmbeddedListTest, TasksInOtherStatesAreNotRead) {
  const auto statements = sql_statements("sqlite/tasks/inspect.sql");
  const auto plan_of = [&](const std::string& name) {
    return sql("EXPLAIN QUERY PLAN " + statements.at(name));
  };
  for (const auto& [name, index] :
       {std::pair{"list_pending", "SCAN task_queue USING INDEX task_ready"},
        std::pair{"list_leased", "SCAN task_queue USING INDEX task_leased"},
        std::pair{"list_finished", "SEARCH task_queue USING INDEX task_finished (state=?)"}}) {
    const std::string plan = plan_of(name);
    EXPECT_NE(plan.find(index), std::string::npos) << name << ":\n" << plan;
    EXPECT_NE(plan.find("SEARCH task_queue USING INTEGER PRIMARY KEY (rowid=?)"), std::string::npos)
        << name << ":\n"
        << plan;
  }
}

/// Counts the steps of SQLite's machine that a call on a queue takes.
int machine_steps(TaskQueue& queue, const std::function<void()>& call) {
  int steps = 0;
  const auto count_steps = [&](int every) {
    transact(queue, [&](sqlite3* connection) {
      sqlite3_progress_handler(
          connection, every, [](void* number) { return ++*static_cast<int*>(number), 0; }, &steps);
    });
  };
  count_steps(1);
  steps = 0;
  call();
  const int taken = steps;
  count_steps(0);
  return taken;
}

TEST_P(EmbeddedListTest, AListCostsTheSameHoweverManyTasksAreInOtherStates) {
  TaskQueue queue{uri()};
  const auto add = [&](std::size_t number, const std::function<void(TaskLease&)>& end) {
    queue.enqueue(std::vector<NewTask>(number, {.type = "t"}));
    for (auto& lease : queue.lease({.types = {"t"}, .limit = number})) end(lease);
  };
  const auto complete = [](TaskLease& lease) { lease.complete(); };
  const auto fail = [](TaskLease& lease) { lease.fail("no", Retry::never()); };
  add(3, complete);
  add(3, fail);
  const auto list_dead = [&] { EXPECT_EQ(queue.list({.state = TaskState::dead}).size(), 3U); };
  const auto list_completed = [&] { queue.list({.state = TaskState::completed}); };
  list_dead();  // prepares the statement
  const int shallow = machine_steps(queue, list_dead);
  const int completed = machine_steps(queue, list_completed);
  add(2'000, complete);
  queue.enqueue(std::vector<NewTask>(2'000, {.type = "t"}));
  EXPECT_EQ(machine_steps(queue, list_dead), shallow);
  EXPECT_GT(machine_steps(queue, list_completed), completed) << "this test counts nothing";
}

}  // namespace
}  // namespace leasehold::testing
