// What waits until its commit is safe, and what it says if that takes too long. The server waits
// for a standby that is not there.
#include <gtest/gtest.h>

#include <leasehold/tasks.hpp>
#include <memory>
#include <string>
#include <vector>

#include "harness/postgres_server.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

class TaskCommitTest : public ::testing::Test {
 protected:
  void SetUp() override {
    migrate(patient_uri());
    TaskQueue{patient_uri()}.enqueue({.type = "t", .unique_key = "first"});
  }
  /// Does not wait for standbys.
  std::string patient_uri() const { return server.uri() + "?options=-csynchronous_commit%3Dlocal"; }
  TaskQueueOptions with(LeaseCommit commit) const {
    TaskQueueOptions options;
    options.postgres.command_timeout = 2s;
    options.postgres.lease_commit = commit;
    options.recovery = std::nullopt;
    return options;
  }

  PostgresServer server{
      {.config_lines = {"synchronous_standby_names = 'nobody'", "synchronous_commit = on"}}};
};

// The cancellation ends only the wait for the standby: the server says that all is well.
TEST_F(TaskCommitTest, WhatNoStandbyHasConfirmedInTimeIsNotTakenForDone) {
  TaskQueue queue{server.uri(), with(LeaseCommit::wait)};
  EXPECT_THROW(queue.enqueue({.type = "t"}), OutcomeUnknown);
  EXPECT_THROW(queue.lease({.types = {"t"}}), OutcomeUnknown);
}

TEST_F(TaskCommitTest, TheEndOfALeaseThatNoStandbyHasConfirmedIsNotTakenForDone) {
  TaskQueue queue{server.uri(), with(LeaseCommit::do_not_wait)};
  TaskQueue{patient_uri()}.enqueue(std::vector<NewTask>(2, {.type = "t"}));
  auto leases = queue.lease({.types = {"t"}, .limit = 3});
  ASSERT_EQ(leases.size(), 3U);
  EXPECT_THROW(leases[0].complete(), OutcomeUnknown);
  EXPECT_THROW(leases[1].fail("no"), OutcomeUnknown);
  EXPECT_THROW(leases[2].release(), OutcomeUnknown);
}

TEST_F(TaskCommitTest, ALeaseNeedNotWait) {
  TaskQueue queue{server.uri(), with(LeaseCommit::do_not_wait)};
  const auto leases = queue.lease({.types = {"t"}});
  ASSERT_EQ(leases.size(), 1U);
  EXPECT_THROW(queue.enqueue({.type = "t"}), OutcomeUnknown) << "this waits all the same";
}

}  // namespace
}  // namespace leasehold::testing
