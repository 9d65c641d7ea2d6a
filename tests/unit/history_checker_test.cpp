// The checker itself: histories made by hand, good ones and bad ones, for every rule. Times are
// small numbers; a grant of `g` by process P, thread 1, is written `g`.

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "harness/temp_dir.hpp"
#include "tests/history/fenced_register.hpp"
#include "tests/history/history_checker.hpp"
#include "tests/history/planted_bug.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

/// "rule place place" for each violation. Places are lines of the text, counted from 1.
std::vector<std::string> check(std::string_view text) {
  std::vector<std::string> found;
  for (const Violation& violation : check_history(parse_history(text))) {
    found.push_back(std::string(to_string(violation.rule)) + " " + violation.first.place + " " +
                    violation.second.place);
  }
  return found;
}

using Found = std::vector<std::string>;
const Found nothing;

// Exclusive locks.

TEST(ExclusiveHistory, OneAfterTheOtherIsFine) {
  EXPECT_EQ(check("10 p 1 a acquire L invoke\n"
                  "20 p 1 a acquire L ok token=1 until=90\n"
                  "25 q 1 b acquire L invoke\n"
                  "30 p 1 a release L invoke\n"
                  "35 q 1 b acquire L ok token=2 until=95\n"
                  "36 p 1 a release L ok\n"
                  "40 q 1 b release L invoke\n"
                  "45 q 1 b release L ok\n"),
            nothing);
}

TEST(ExclusiveHistory, TwoAtOnceAreFound) {
  EXPECT_EQ(check("10 p 1 a acquire L invoke\n"
                  "20 p 1 a acquire L ok token=1 until=90\n"
                  "25 q 1 b acquire L invoke\n"
                  "35 q 1 b acquire L ok token=2 until=95\n"),
            Found{"two_writers line:2 line:4"});
}

TEST(ExclusiveHistory, LocksOfDifferentNamesDoNotMeet) {
  EXPECT_EQ(check("10 p 1 a acquire L invoke\n"
                  "20 p 1 a acquire L ok token=1 until=90\n"
                  "25 q 1 b acquire M invoke\n"
                  "35 q 1 b acquire M ok token=1 until=95\n"),
            nothing);
}

TEST(ExclusiveHistory, TrustEndsWithThePromise) {
  EXPECT_EQ(check("10 p 1 a acquire L invoke\n"
                  "20 p 1 a acquire L ok token=1 until=50\n"
                  "25 q 1 b acquire L invoke\n"
                  "50 q 1 b acquire L ok token=2 until=95\n"),
            nothing);
}

TEST(ExclusiveHistory, APromiseIsProlongedByACheckOrAnExtension) {
  EXPECT_EQ(check("10 p 1 a acquire L invoke\n"
                  "20 p 1 a acquire L ok token=1 until=50\n"
                  "25 q 1 b acquire L invoke\n"
                  "40 p 1 a check L ok until=80\n"
                  "60 q 1 b acquire L ok token=2 until=95\n"),
            Found{"two_writers line:2 line:5"});
  EXPECT_EQ(check("10 p 1 a acquire L invoke\n"
                  "20 p 1 a acquire L ok token=1 until=50\n"
                  "25 q 1 b acquire L invoke\n"
                  "30 p 1 a extend L invoke\n"
                  "40 p 1 a extend L ok until=80\n"
                  "60 q 1 b acquire L ok token=2 until=95\n"),
            Found{"two_writers line:2 line:6"});
}

TEST(ExclusiveHistory, TrustEndsWithTheNewsOfALoss) {
  EXPECT_EQ(check("10 p 1 a acquire L invoke\n"
                  "20 p 1 a acquire L ok token=1 until=90\n"
                  "25 q 1 b acquire L invoke\n"
                  "30 p 1 a watch L lost reason=max_hold\n"
                  "50 q 1 b acquire L ok token=2 until=95\n"),
            nothing);
}

TEST(ExclusiveHistory, AGrantThatCameTooLateIsNotTrusted) {
  EXPECT_EQ(check("10 p 1 a acquire L invoke\n"
                  "60 p 1 a acquire L ok token=1\n"
                  "25 q 1 b acquire L invoke\n"
                  "50 q 1 b acquire L ok token=2 until=95\n"),
            nothing);
}

TEST(ExclusiveHistory, WhatAKilledProcessWasPromisedStillCounts) {
  EXPECT_EQ(check("10 p 1 a acquire L invoke\n"
                  "20 p 1 a acquire L ok token=1 until=90\n"
                  "25 p 0 - kill - ok\n"
                  "30 q 1 b acquire L invoke\n"
                  "50 q 1 b acquire L ok token=2 until=95\n"),
            Found{"two_writers line:2 line:5"});
}

// Overrides and lost data.

TEST(ProtectionInAHistory, EndsWithAnOverride) {
  EXPECT_EQ(check("10 p 1 a acquire L invoke\n"
                  "20 p 1 a acquire L ok token=1 until=90\n"
                  "25 q 1 b acquire L invoke overrides=1\n"
                  "35 q 1 b acquire L ok token=2 until=95\n"
                  "36 p 1 a check L ok until=90\n"
                  "37 p 1 a watch L lost reason=taken\n"),
            nothing);
}

TEST(ProtectionInAHistory, OfOneWhoCameAfterTheOverrideDoesNotEnd) {
  EXPECT_EQ(check("10 p 1 a acquire L invoke\n"
                  "11 q 1 b acquire L invoke overrides=1\n"
                  "20 q 1 b acquire L ok token=1 until=90\n"
                  "30 p 1 a acquire L ok token=2 until=90\n"),
            Found{"two_writers line:3 line:4"});
}

TEST(ProtectionInAHistory, EndsWithAnOverrideThatMayHaveHappened) {
  const std::string begin =
      "10 p 1 a acquire L invoke\n"
      "20 p 1 a acquire L ok token=1 until=90\n"
      "25 q 1 b acquire L invoke overrides=1\n";
  const std::string end =
      "40 r 1 c acquire L invoke\n"
      "50 r 1 c acquire L ok token=3 until=95\n";
  EXPECT_EQ(check(begin + "30 q 1 b acquire L unknown\n" + end), nothing);
  EXPECT_EQ(check(begin + "30 q 0 - kill - ok\n" + end), nothing);
}

TEST(ProtectionInAHistory, IsNotEndedByAnOverrideOfLongAgo) {
  EXPECT_EQ(check("10 q 1 b acquire L invoke overrides=1\n"
                  "20 q 0 - kill - ok\n"
                  "5000000010 p 1 a acquire L invoke\n"
                  "5000000020 p 1 a acquire L ok token=1 until=5000000090\n"
                  "5000000040 r 1 c acquire L invoke\n"
                  "5000000050 r 1 c acquire L ok token=3 until=5000000095\n"),
            Found{"two_writers line:4 line:6"});
}

TEST(ProtectionInAHistory, EndsWithAForcedRelease) {
  EXPECT_EQ(check("10 p 1 a acquire L invoke\n"
                  "20 p 1 a acquire L ok token=1 until=90\n"
                  "25 q 1 f force_release L invoke\n"
                  "35 r 1 b acquire L invoke\n"
                  "40 r 1 b acquire L ok token=2 until=95\n"
                  "45 q 1 f force_release L ok\n"),
            nothing);
}

TEST(ProtectionInAHistory, AForcedReaderOustsAWriterOnly) {
  const std::string end =
      "25 q 1 b acquire L invoke kind=shared overrides=1\n"
      "30 q 1 b acquire L ok kind=shared overrides=1 token=1 until=90\n"
      "35 r 1 c acquire L invoke\n"
      "40 r 1 c acquire L ok token=2 until=95\n";
  EXPECT_EQ(check("10 p 1 a acquire L invoke\n"
                  "20 p 1 a acquire L ok token=1 until=90\n" +
                  end),
            Found{"reader_beside_writer line:4 line:6"});
  EXPECT_EQ(check("10 p 1 a acquire L invoke kind=shared\n"
                  "20 p 1 a acquire L ok kind=shared token=1 until=90\n" +
                  end),
            (Found{"reader_beside_writer line:2 line:6", "reader_beside_writer line:4 line:6"}));
}

TEST(ProtectionInAHistory, EndsWithALossOfData) {
  EXPECT_EQ(check("10 p 1 a acquire L invoke\n"
                  "20 p 1 a acquire L ok token=1 until=90\n"
                  "25 test 0 - data_loss - invoke\n"
                  "30 test 0 - data_loss - ok\n"
                  "31 q 1 b acquire L invoke\n"
                  "35 q 1 b acquire L ok token=2 until=95\n"
                  "36 p 1 a watch L lost reason=taken\n"),
            nothing);
}

TEST(ProtectionInAHistory, OfOneWhoCameAfterTheLossOfDataDoesNotEnd) {
  EXPECT_EQ(check("5 test 0 - data_loss - invoke\n"
                  "6 test 0 - data_loss - ok\n"
                  "10 p 1 a acquire L invoke\n"
                  "20 p 1 a acquire L ok token=1 until=90\n"
                  "31 q 1 b acquire L invoke\n"
                  "35 q 1 b acquire L ok token=2 until=95\n"),
            Found{"two_writers line:4 line:6"});
}

TEST(ProtectionInAHistory, ComesBackToOneThatIsRenewedAfterTheLossOfData) {
  const std::string begin =
      "10 p 1 a acquire L invoke ttl=40\n"
      "20 p 1 a acquire L ok ttl=40 token=1 until=49\n"
      "25 test 0 - data_loss - invoke\n"
      "30 test 0 - data_loss - ok\n";
  const std::string other =
      "41 q 1 b acquire L invoke ttl=40\n"
      "44 q 1 b acquire L ok ttl=40 token=2 until=80\n";
  // 69 - 40: it was sent before the loss, and says nothing about what came after.
  EXPECT_EQ(check(begin + "32 p 1 a check L ok until=69\n" + other), nothing);
  EXPECT_EQ(check(begin + "32 p 1 a check L ok until=70\n" + other),
            Found{"two_writers line:2 line:7"});
  EXPECT_EQ(check(begin + "40 p 1 a extend L invoke\n" + other + "60 p 1 a extend L ok until=78\n"),
            Found{"two_writers line:2 line:7"})
      << "it was there all the time, or it could not have been renewed";
  const std::string gone = "60 p 1 a watch L lost reason=vanished\n";
  EXPECT_EQ(check(begin + "32 p 1 a check L ok until=69\n" + gone), nothing);
  EXPECT_EQ(check(begin + "32 p 1 a check L ok until=70\n" + gone),
            Found{"freed_by_another line:2 line:6"});
}

// Shared locks and permits.

TEST(SharedHistory, ReadersStandBesideEachOther) {
  EXPECT_EQ(check("10 p 1 a acquire L invoke kind=shared\n"
                  "20 p 1 a acquire L ok kind=shared token=1 until=90\n"
                  "25 q 1 b acquire L invoke kind=shared\n"
                  "35 q 1 b acquire L ok kind=shared token=1 until=95\n"),
            nothing);
}

TEST(SharedHistory, AReaderBesideAWriterIsFoundWhoeverCameFirst) {
  EXPECT_EQ(check("10 p 1 a acquire L invoke\n"
                  "20 p 1 a acquire L ok token=1 until=90\n"
                  "25 q 1 b acquire L invoke kind=shared\n"
                  "35 q 1 b acquire L ok kind=shared token=1 until=95\n"),
            Found{"reader_beside_writer line:2 line:4"});
  EXPECT_EQ(check("10 p 1 a acquire L invoke kind=shared\n"
                  "20 p 1 a acquire L ok kind=shared token=1 until=90\n"
                  "25 q 1 b acquire L invoke\n"
                  "35 q 1 b acquire L ok token=2 until=95\n"),
            Found{"reader_beside_writer line:2 line:4"});
}

TEST(SharedHistory, ADowngradeLetsReadersInAndKeepsWritersOut) {
  const std::string downgraded =
      "10 p 1 a acquire L invoke\n"
      "20 p 1 a acquire L ok token=1 until=90\n"
      "30 p 1 a downgrade L invoke\n"
      "40 p 1 a downgrade L ok until=90\n";
  EXPECT_EQ(check(downgraded + "25 q 1 b acquire L invoke kind=shared\n"
                               "35 q 1 b acquire L ok kind=shared token=1 until=95\n"),
            nothing);
  EXPECT_EQ(check(downgraded + "25 q 1 b acquire L invoke\n"
                               "35 q 1 b acquire L ok token=2 until=95\n"),
            Found{"reader_beside_writer line:2 line:6"});
}

TEST(PermitHistory, MoreThanTheLimitAreFound) {
  const std::string two =
      "10 p 1 a acquire L invoke kind=permit limit=2\n"
      "20 p 1 a acquire L ok kind=permit limit=2 token=1 until=90\n"
      "25 q 1 b acquire L invoke kind=permit limit=2\n"
      "35 q 1 b acquire L ok kind=permit limit=2 token=1 until=95\n";
  EXPECT_EQ(check(two), nothing);
  EXPECT_EQ(check(two + "45 q 1 c acquire L invoke kind=permit limit=2\n"
                        "50 q 1 c acquire L ok kind=permit limit=2 token=1 until=95\n"),
            Found{"too_many_permits line:2 line:6"});
  EXPECT_EQ(check(two + "45 q 1 c acquire L invoke kind=permit limit=2 overrides=1\n"
                        "50 q 1 c acquire L ok kind=permit limit=2 overrides=1 token=1 until=95\n"),
            nothing)
      << "a forced one is one more";
}

// Tokens.

TEST(TokenHistory, ATokenThatDoesNotGrowIsFoundEvenAfterALossOfData) {
  for (const std::string token : {"6", "7"}) {
    EXPECT_EQ(check("10 p 1 a acquire L invoke\n"
                    "20 p 1 a acquire L ok token=7\n"
                    "25 test 0 - data_loss - invoke\n"
                    "30 test 0 - data_loss - ok\n"
                    "31 q 1 b acquire L invoke\n"
                    "35 q 1 b acquire L ok token=" +
                    token + "\n")
                  .at(0),
              "token_order line:2 line:6");
  }
}

TEST(TokenHistory, OfCallsThatOverlapEitherMayBeFirst) {
  EXPECT_EQ(check("10 p 1 a acquire L invoke\n"
                  "11 q 1 b acquire L invoke\n"
                  "20 p 1 a acquire L ok token=7\n"
                  "35 q 1 b acquire L ok token=6\n"),
            nothing);
  EXPECT_EQ(check("10 p 1 a acquire L invoke\n"
                  "11 q 1 b acquire L invoke\n"
                  "20 p 1 a acquire L ok token=7\n"
                  "35 q 1 b acquire L ok token=7\n"),
            Found{"token_order line:3 line:4"})
      << "but they never get the same";
}

TEST(TokenHistory, FollowsTheOrderOfTheHolders) {
  EXPECT_EQ(check("10 q 1 b acquire L invoke\n"
                  "11 p 1 a acquire L invoke\n"
                  "20 p 1 a acquire L ok token=7 until=90\n"
                  "30 p 1 a release L invoke\n"
                  "35 q 1 b acquire L ok token=6 until=95\n"),
            Found{"token_order line:3 line:5"});
}

TEST(TokenHistory, AReaderHasAtLeastTheTokenOfTheLastWriter) {
  const auto reader_with = [](const std::string& token) {
    return check(
        "10 p 1 a acquire L invoke\n"
        "20 p 1 a acquire L ok token=7 until=90\n"
        "25 p 1 a release L invoke\n"
        "30 q 1 b acquire L invoke kind=shared\n"
        "35 q 1 b acquire L ok kind=shared until=40 token=" +
        token + "\n");
  };
  EXPECT_EQ(reader_with("7"), nothing);
  EXPECT_EQ(reader_with("8"), nothing) << "of a writer whose record was lost with it";
  EXPECT_EQ(reader_with("6").at(0), "token_order line:2 line:5");
}

TEST(TokenHistory, AReaderMayJoinReadersThatOlderDataStillHas) {
  const std::string reader_and_writer =
      "10 p 1 a acquire L invoke kind=shared\n"
      "20 p 1 a acquire L ok kind=shared token=5 until=90\n"
      "22 p 1 a release L invoke\n"
      "30 q 1 b acquire L invoke\n"
      "35 q 1 b acquire L ok token=6 until=90\n"
      "37 q 1 b release L invoke\n";
  const std::string loss =
      "40 test 0 - data_loss - invoke\n"
      "45 test 0 - data_loss - ok\n";
  const auto reader_with = [](const std::string& token) {
    return "50 r 1 c acquire L invoke kind=shared\n"
           "55 r 1 c acquire L ok kind=shared until=95 token=" +
           token +
           "\n"
           "60 r 1 c read L fail token=" +
           token + "\n";
  };
  EXPECT_EQ(check(reader_and_writer + loss + reader_with("5")), nothing);
  EXPECT_EQ(check(reader_and_writer + loss + reader_with("4")).at(0), "token_order line:5 line:10")
      << "nobody had that one";
  EXPECT_EQ(check(reader_and_writer + reader_with("5")).at(0), "token_order line:5 line:8");

  const std::string two_writers =
      "10 p 1 a acquire L invoke\n"
      "20 p 1 a acquire L ok token=5 until=90\n"
      "22 p 1 a release L invoke\n"
      "30 q 1 b acquire L invoke\n"
      "35 q 1 b acquire L ok token=6 until=90\n"
      "37 q 1 b release L invoke\n";
  const std::string given_up =
      "21 s 1 d acquire L invoke kind=shared\n"
      "31 s 1 d acquire L fail kind=shared\n";
  EXPECT_EQ(check(two_writers + loss + reader_with("5")).at(0), "token_order line:5 line:10");
  EXPECT_EQ(check(two_writers + loss + reader_with("5") + given_up), nothing)
      << "it may have had the token of the first writer for a moment";
}

TEST(TokenHistory, AWriterOutranksTheReadersBeforeIt) {
  EXPECT_EQ(check("10 p 1 a acquire L invoke kind=shared\n"
                  "20 p 1 a acquire L ok kind=shared token=7\n"
                  "30 q 1 b acquire L invoke\n"
                  "35 q 1 b acquire L ok token=7 until=90\n"),
            Found{"token_order line:2 line:4"});
}

// Release.

TEST(ReleaseHistory, ALateReleaseThatIsToldSoIsFine) {
  EXPECT_EQ(check("10 p 1 a acquire L invoke\n"
                  "20 p 1 a acquire L ok token=1 until=30\n"
                  "35 q 1 b acquire L invoke\n"
                  "40 q 1 b acquire L ok token=2 until=95\n"
                  "50 p 1 a release L invoke\n"
                  "60 p 1 a release L lost\n"
                  "70 q 1 b release L invoke\n"
                  "75 q 1 b release L ok\n"),
            nothing);
}

TEST(ReleaseHistory, ALateReleaseThatFreesTheLockOfAnotherIsFound) {
  EXPECT_EQ(check("10 p 1 a acquire L invoke\n"
                  "20 p 1 a acquire L ok token=1 until=30\n"
                  "35 q 1 b acquire L invoke\n"
                  "40 q 1 b acquire L ok token=2 until=95\n"
                  "50 p 1 a release L invoke\n"
                  "60 p 1 a release L ok\n"),
            Found{"freed_by_another line:4 line:6"});
}

TEST(ReleaseHistory, AHolderThatFindsItsLockGoneInItsTrustedTimeIsFound) {
  const std::string held =
      "35 q 1 b acquire L invoke\n"
      "40 q 1 b acquire L ok token=2 until=95\n";
  EXPECT_EQ(check(held + "70 q 1 b release L invoke\n"
                         "75 q 1 b release L lost reason=none\n"),
            Found{"freed_by_another line:2 line:4"});
  EXPECT_EQ(check(held + "75 q 1 b watch L lost reason=vanished\n"),
            Found{"freed_by_another line:2 line:3"});
  EXPECT_EQ(check(held + "96 q 1 b watch L lost reason=vanished\n"), nothing) << "too late to tell";
  EXPECT_EQ(check(held + "75 q 1 b watch L lost reason=expired\n"), nothing) << "gave up by itself";
  EXPECT_EQ(check(held + "70 q 1 b release L invoke\n"
                         "71 test 0 - data_loss - invoke\n"
                         "72 test 0 - data_loss - ok\n"
                         "75 q 1 b release L lost reason=none\n"),
            nothing);
}

// The life of a grant.

TEST(GrantHistory, WhatIsOverIsNeverValidAgain) {
  const std::string held =
      "35 q 1 b acquire L invoke\n"
      "40 q 1 b acquire L ok token=2 until=95\n";
  const std::string valid = "70 q 1 b check L ok until=99\n";
  EXPECT_EQ(check(held + valid), nothing);
  for (const std::string over :
       {"60 q 1 b watch L lost reason=expired\n", "60 q 1 b check L fail\n",
        "60 q 1 b extend L lost reason=expired\n", "60 q 1 b release L invoke\n"}) {
    EXPECT_EQ(check(held + over + valid), Found{"valid_again line:3 line:4"}) << over;
  }
}

TEST(GrantHistory, OneThatIsNotToldOfItsLossIsFound) {
  EXPECT_EQ(check("35 q 1 b acquire L invoke\n"
                  "40 q 1 b acquire L ok token=2 until=50\n"
                  "70 q 1 b watch L fail\n"),
            Found{"not_told line:1 line:3"});
}

// What was seen in the store.

TEST(StoreHistory, SightsAreReportedWithTheFaultBefore) {
  EXPECT_EQ(check("35 test 0 - fault - invoke reason=stall\n"
                  "40 test 0 - fault - ok reason=stall\n"
                  "50 test 0 - revived L ok\n"
                  "60 test 0 - stuck L ok\n"),
            (Found{"lease_revived line:2 line:3", "not_recovered line:2 line:4"}));
}

// The register.

TEST(RegisterHistory, AWriteComesFromTheLatestValue) {
  const std::string first =
      "10 p 1 a read L ok token=1\n"
      "20 p 1 a write L ok token=1 from=0 value=1\n";
  EXPECT_EQ(check(first + "30 q 1 b read L ok token=2 value=1\n"
                          "40 q 1 b write L ok token=2 from=1 value=2\n"),
            nothing);
  EXPECT_EQ(check(first + "40 q 1 b write L ok token=2 from=0 value=1\n"),
            Found{"lost_update line:2 line:3"});
}

TEST(RegisterHistory, AStaleWriteThatWasAcceptedIsFound) {
  EXPECT_EQ(check("10 p 1 a read L ok token=1\n"
                  "20 q 1 b read L ok token=2\n"
                  "30 p 1 a write L ok token=1 from=0 value=1\n"),
            Found{"stale_write_accepted line:2 line:3"});
}

TEST(RegisterHistory, AHolderThatIsRefusedInItsTrustedTimeIsFound) {
  const std::string held =
      "35 q 1 b acquire L invoke\n"
      "40 q 1 b acquire L ok token=2 until=95\n";
  EXPECT_EQ(check(held + "50 q 1 b write L fail token=2\n"),
            Found{"valid_holder_refused line:2 line:3"});
  EXPECT_EQ(check(held + "96 q 1 b write L fail token=2\n"), nothing);
}

// What the runs stand on.

TEST(HistoryRecord, ComesBackAsItWasWritten) {
  const TempDir dir;
  Event event;
  event.time = 123;
  event.thread = 4;
  event.grant = "p.4.1";
  event.op = Op::acquire;
  event.lock = "L";
  event.phase = Phase::ok;
  event.kind = Kind::permit;
  event.limit = 3;
  event.overrides = true;
  event.token = 1'700'000'000'000'000;
  event.until = 456;
  event.reason = "none";
  {
    const Recorder recorder{dir.path(), "p"};
    recorder.record(event);
    event.time = 122;
    recorder.record(event);
  }
  std::ofstream(dir.path() / "p.history", std::ios::app) << "125 p 4 p.4.1 relea";

  const History history = read_history(dir.path());
  ASSERT_EQ(history.events.size(), 2U) << "the last line was cut short";
  event.process = "p";
  EXPECT_EQ(to_line(history.events[0]), to_line(event));
  EXPECT_EQ(history.events[0].place, "p.history:2");
}

TEST(HistoryRecord, ALineThatMakesNoSenseIsRefused) {
  EXPECT_THROW(parse_line("1 p 1 a acquire L"), std::invalid_argument);
  EXPECT_THROW(parse_line("1 p 1 a require L ok"), std::invalid_argument);
  EXPECT_THROW(parse_line("1 p 1 a acquire L ok colour=red"), std::invalid_argument);
}

TEST(HistoryRecord, AViolationNamesRuleLockAndPlaces) {
  std::ostringstream text;
  text << check_history(parse_history("10 p 1 a read L ok token=2\n"
                                      "20 q 1 b read L ok token=1\n"))
              .at(0);
  EXPECT_EQ(text.str(),
            "stale_write_accepted (L1, L2) lock=L\n"
            "  line:1  10 p 1 a read L ok token=2\n"
            "  line:2  20 q 1 b read L ok token=1");
}

TEST(FencedRegister, RefusesWhatIsOutranked) {
  const TempDir dir;
  const FencedRegister data{dir.path(), "L", FencedRegister::Guard::token};
  Event who;
  who.process = "p";
  who.grant = "a";
  EXPECT_EQ(data.read(who, 1), 0);
  EXPECT_TRUE(data.write(who, 1, 0, 1));
  EXPECT_EQ(data.read(who, 2), 1);
  EXPECT_FALSE(data.write(who, 1, 1, 2)) << "a read with a larger token came before";
  EXPECT_FALSE(data.read(who, 1));
  EXPECT_TRUE(data.write(who, 2, 1, 2));

  const History history = read_history(dir.path());
  EXPECT_EQ(history.registers.at("L").size(), 4U);
  EXPECT_TRUE(check_history(history).empty());
}

TEST(PlantedBug, EveryOneHasANameAndFindsItsPlaceInTheScripts) {
  for (const PlantedBug bug : all_planted_bugs()) {
    EXPECT_EQ(planted_bug(to_string(bug)), bug);
    EXPECT_NO_THROW(plant(bug, nullptr)) << to_string(bug);
  }
}

}  // namespace
}  // namespace leasehold::testing
