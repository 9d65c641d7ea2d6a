// What acquire() and acquire_all() do while the store fails or does not answer.
#include "locks/attempts.hpp"

#include <gtest/gtest.h>

namespace leasehold {
namespace {

using namespace std::chrono_literals;

class AttemptsTest : public ::testing::Test {
 protected:
  /// Fails as the script says, one step for each attempt, then answers 7.
  template <class... Steps>
  std::optional<int> ask(Attempts& attempts, Steps... steps) {
    const std::vector<std::function<void()>> script{steps...};
    return attempts.until_answered(
        [&] {
          const std::size_t step = asked_++;
          if (step < script.size()) script[step]();
          return 7;
        },
        [&] { ++doubts_; });
  }

  static void unavailable() { throw Unavailable("away"); }
  static void reply_lost() { throw OutcomeUnknown("lost"); }
  static void refused() { throw ServerRefused(ServerRefused::Reason::permission, "not allowed"); }
  static void refused_halfway() {
    throw ServerRefused(ServerRefused::Reason::permission, "not allowed", true);
  }
  static void loading() { throw ServerRefused(ServerRefused::Reason::loading, "loading"); }

  std::size_t asked_ = 0;
  int doubts_ = 0;
};

TEST_F(AttemptsTest, AsksUntilTheStoreAnswers) {
  Attempts attempts{{.wait = LockOptions::forever}, {}};
  EXPECT_EQ(ask(attempts, unavailable, reply_lost, loading), 7);
  EXPECT_EQ(asked_, 4U);
  EXPECT_EQ(doubts_, 1) << "the lost reply: what the server refuses for a while did not run";
}

TEST_F(AttemptsTest, ScriptThatWasRefusedForGoodMayHaveFailedHalfway) {
  Attempts attempts{{.wait = LockOptions::forever}, {}};
  EXPECT_THROW(ask(attempts, refused), ServerRefused);
  EXPECT_EQ(doubts_, 0);
  EXPECT_THROW(ask(attempts, refused, refused_halfway), ServerRefused);
  EXPECT_EQ(doubts_, 1);
}

TEST_F(AttemptsTest, WithoutTimeAnErrorIsThrownAtOnce) {
  Attempts attempts{{.wait = 0ms}, {}};
  EXPECT_THROW(ask(attempts, unavailable), Unavailable);
  EXPECT_EQ(asked_, 1U);
  EXPECT_EQ(doubts_, 0);
}

TEST_F(AttemptsTest, WithoutTimeALostReplyIsStillLookedInto) {
  Attempts attempts{{.wait = 0ms}, {}};
  EXPECT_EQ(ask(attempts, reply_lost), 7);
  EXPECT_THROW(ask(attempts, reply_lost, reply_lost, reply_lost, reply_lost), OutcomeUnknown);
}

TEST_F(AttemptsTest, AnErrorAfterALostReplyLeavesTheOutcomeUnknown) {
  Attempts attempts{{.wait = 0ms}, {}};
  EXPECT_THROW(ask(attempts, reply_lost, unavailable), OutcomeUnknown);
  Attempts others{{.wait = LockOptions::forever}, {}};
  asked_ = 0;
  EXPECT_THROW(ask(others, reply_lost, refused), OutcomeUnknown);
}

TEST_F(AttemptsTest, ARefusalThatStaysIsThrownAtOnce) {
  Attempts attempts{{.wait = LockOptions::forever}, {}};
  EXPECT_THROW(ask(attempts, refused), ServerRefused);
  EXPECT_EQ(asked_, 1U);
}

TEST_F(AttemptsTest, AFiredStopTokenEndsThem) {
  std::stop_source stop;
  Attempts attempts{{.wait = LockOptions::forever}, stop.get_token()};
  EXPECT_FALSE(ask(attempts, [&] {
    stop.request_stop();
    unavailable();
  }));
  EXPECT_EQ(asked_, 1U);
}

TEST_F(AttemptsTest, FailFastHasNoTime) {
  const Attempts attempts{{.wait = 10s, .on_conflict = OnConflict::fail_fast}, {}};
  EXPECT_TRUE(attempts.is_over());
}

}  // namespace
}  // namespace leasehold
