// Locks in a SQLite file when processes, files, disks and clocks misbehave.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "harness/process.hpp"
#include "leasehold/errors.hpp"
#include "sqlite/locks/sqlite_lock_store.hpp"
#include "tests/support/as_ordinary_user.hpp"
#include "tests/support/lock_store.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/pause_process.hpp"
#include "tests/support/refusal_of.hpp"
#include "tests/support/sqlite_connection.hpp"
#include "tests/support/starvation.hpp"
#include "tests/support/test_namespace.hpp"
#include "tests/support/waiter.hpp"

namespace leasehold::testing {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using Reason = ServerRefused::Reason;

const std::string program = LEASEHOLD_TEST_PROGRAMS "/sqlite_lock_program";

class SqliteLockFaultsTest : public ::testing::Test {
 protected:
  /// Another program that uses the file in a way of its own.
  static std::shared_ptr<sqlite::Database> peek(const std::string& uri) {
    static constexpr EmbeddedText nothing{"0001_nothing", "", "SELECT 1"};
    static constexpr std::array nothings{&nothing};
    return sqlite::open_database(*sqlite::parse_sqlite_uri(uri),
                                 {.timeout = patience,
                                  .schema = {.kind = "peek", .migrations = nothings},
                                  .durability = sqlite::Durability::process_crash});
  }

  static std::string ask(sqlite::Database& database, const std::string& sql) {
    return database.write(
        [&](sqlite::Transaction& transaction) { return transaction.pragma(sql); });
  }

  /// Why the file is refused.
  static Reason refusal(const std::string& uri) {
    return refusal_of([&] { LockClient{uri, as_new_runner()}.acquire("lock"); }, uri);
  }

  TempDir dir;
  const fs::path file = dir.path() / "locks.db";
  const std::string uri = "sqlite:" + file.string();
};

// --- Many processes ----------------------------------------------------------------------------

TEST_F(SqliteLockFaultsTest, ManyProcessesAreInEachOthersWayAndNobodyNoticesButTheCounter) {
  constexpr int processes = 4;
  std::vector<std::unique_ptr<Process>> running;
  for (int i = 0; i < processes; ++i) {
    running.push_back(
        std::make_unique<Process>(std::vector<std::string>{program, uri, "busy", "4", "100"}));
  }
  long retries = 0;
  for (const auto& process : running) {
    std::istringstream line{process->read_line(120s).value_or("99 0")};
    long errors = 0;
    long more = 0;
    line >> errors >> more;
    EXPECT_EQ(errors, 0);
    retries += more;
    EXPECT_EQ(process->wait(patience), ExitStatus{});
  }
  EXPECT_GT(retries, 0);
}

TEST_F(SqliteLockFaultsTest, WhoStaysInTheWayIsWaitedForAsLongAsTheOptionsSay) {
  auto options = as_new_runner();
  options.sqlite.timeout = 50ms;
  LockClient hasty{uri, options};
  LockClient patient{uri, as_new_runner()};
  const auto other = peek(uri);
  other->write([&](sqlite::Transaction&) {
    const auto message = message_of<Unavailable>([&] { hasty.acquire("lock", {.wait = 0ms}); });
    EXPECT_TRUE(contains(message, "50 ms")) << message;
  });
  EXPECT_GT(hasty.stats().busy_retries, 0U);
  EXPECT_FALSE(hasty.status("lock"));

  // While there is time to wait for the lock, the file is waited for too.
  std::jthread waiting;
  Signal got;
  other->write([&](sqlite::Transaction&) {
    waiting = std::jthread([&] {
      EXPECT_TRUE(hasty.acquire("lock", {.wait = patience}));
      got.set();
    });
    const auto before = hasty.stats().busy_retries;
    EXPECT_TRUE(eventually([&] { return hasty.stats().busy_retries > before + 20; }, patience));
  });
  EXPECT_TRUE(got.wait());
}

// Also when it is time to clean up: that waits for nobody.
TEST_F(SqliteLockFaultsTest, WhoStaysInTheWayIsWaitedForOnceAndNotForTheCleanupToo) {
  constexpr auto timeout = 1'050ms;  // longer than from one cleanup to the next
  auto options = as_new_runner();
  options.sqlite.timeout = timeout;
  LockClient hasty{uri, options};
  peek(uri)->write([&](sqlite::Transaction&) {
    const auto try_it = [&] { hasty.acquire("lock", {.wait = 0ms}); };
    EXPECT_THROW(try_it(), Unavailable);
    // If it waited twice, each would take twice as long. Several, for the machine may stand still.
    EXPECT_TRUE(eventually(
        [&] {
          const auto start = std::chrono::steady_clock::now();
          EXPECT_THROW(try_it(), Unavailable);
          return std::chrono::steady_clock::now() - start < 2 * timeout;
        },
        patience));
  });
}

// The client of a grant that was not confirmed is dead or frozen: none of its waiters holds up the
// line, whoever finds out.
TEST_F(SqliteLockFaultsTest, CleanupEvictsTheClientOfAGrantThatWasNotConfirmed) {
  const auto make_store = [&] {
    return std::make_unique<sqlite::SqliteLockStore>(
        *sqlite::parse_sqlite_uri(uri),
        sqlite::SqliteLockStore::Options{.runner = RunnerId::generate(),
                                         .linger = 1h,
                                         .keep_counters = 1h,
                                         .timeout = patience,
                                         .boot_id = {}});
  };
  const auto living = make_store();
  const auto frozen = make_store();
  const std::string holder(32, 'a');
  ASSERT_TRUE(std::holds_alternative<Granted>(
      living->acquire({.name = "lock", .owner = holder, .ttl = 1h})));
  for (const char letter : {'b', 'c'}) {
    const std::string owner(32, letter);
    const AcquireRequest waiting{.name = "lock", .owner = owner, .ttl = 1h, .join = Join::tail};
    ASSERT_TRUE(std::holds_alternative<Conflict>(frozen->acquire(waiting)));
  }
  EXPECT_EQ(living->release("lock", holder), ReleaseResult::released);
  ask(*peek(uri), "UPDATE lock_parties SET ends = 0, gone = 0 WHERE state = 'granted'");
  // Whoever uses locks cleans up once a second.
  EXPECT_TRUE(eventually(
      [&] {
        if (std::holds_alternative<Granted>(
                living->acquire({.name = "other", .owner = holder, .ttl = 1h}))) {
          living->release("other", holder);
        }
        return living->counts().waiters_evicted == 2;
      },
      patience));
  EXPECT_FALSE(living->status("lock"));
}

// As GhostInLineTest does on Redis.
TEST_F(SqliteLockFaultsTest, OfferThatNobodyWaitsForIsPassedOnAtOnce) {
  LockClient client{uri, as_new_runner()};
  LockClient other{uri, as_new_runner()};
  const auto evicted = [&] {
    return client.stats().waiters_evicted + other.stats().waiters_evicted;
  };
  // If we get no time, the offer ends for that reason.
  repeat_if_stalled(500ms, [&] {
    const auto before = evicted();
    Lock lock = client.acquire("lock", {.ttl = 60s, .wait = patience}).value();
    Waiter waiter{other, "lock", {.wait = LockOptions::forever}};
    ASSERT_TRUE(eventually([&] { return line_length(client, "lock") == 1; }, patience));
    const SqliteConnection outside = connect_to(file.string());
    run_sql(outside.get(),
            "BEGIN IMMEDIATE;"
            "DROP TABLE IF EXISTS temp.ghost;"
            "CREATE TEMP TABLE ghost AS SELECT * FROM lock_parties WHERE state = 'waiting';"
            "UPDATE ghost SET owner = 'ghost', score = score - 1;"
            "INSERT INTO lock_parties SELECT * FROM ghost;"
            "COMMIT");
    ASSERT_EQ(line_length(client, "lock"), 2U);
    EXPECT_EQ(lock.release(), Release::done);
    EXPECT_TRUE(waiter.got_it());
    EXPECT_EQ(evicted(), before);
  });
}

// What was said to be granted is granted, and what was said to be released is free, whenever the
// process is killed.
TEST_F(SqliteLockFaultsTest, KilledAtAnyMomentNothingThatWasSaidIsUntrue) {
  LockClient client{uri, as_new_runner()};
  std::mt19937 random{20'261'116};
  FencingToken last;
  int held = 0;
  for (int i = 0; i < 30; ++i) {
    Process process({program, uri, "grants", "lock"});
    // From its first word on.
    std::string word = process.read_line(patience).value_or("");
    std::this_thread::sleep_for(
        std::chrono::microseconds{std::uniform_int_distribution<int>{0, 8'000}(random)});
    process.kill(SIGKILL);
    ASSERT_TRUE(process.wait(patience));
    std::string said = word;
    FencingToken token;
    std::istringstream lines{word + "\n" + process.read_rest()};
    for (std::string line; std::getline(lines, line);) {
      FencingToken next;
      std::istringstream words{line};
      // The last line may be cut off in the middle.
      if (!(words >> word >> next.value) || (word != "granted" && word != "released")) continue;
      if (word == "granted") {
        ASSERT_GT(next, last) << "a token went back";
        last = next;
      }
      said = word;
      token = next;
    }
    const auto record = client.status("lock");
    if (said == "granted") {
      // Released since, perhaps, but that was not said; and then there may be a next one.
      EXPECT_TRUE(!record || record->token >= token);
    } else if (record) {
      EXPECT_GT(record->token, token) << "it was said to be released";
    }
    if (record) {
      ++held;
      EXPECT_EQ(record->pid, process.pid());
      last = std::max(last, record->token);
      EXPECT_TRUE(client.force_release("lock"));
    }
  }
  RecordProperty("killed_while_it_held", held);
  EXPECT_GT(client.acquire("lock")->token(), last);
  EXPECT_EQ(ask(*peek(uri), "PRAGMA integrity_check"), "ok");
}

TEST_F(SqliteLockFaultsTest, AcknowledgedGrantSurvivesItsHolder) {
  LockClient client{uri, as_new_runner()};
  for (int i = 0; i < 10; ++i) {
    const std::string name = "lock" + std::to_string(i);
    Process process({LEASEHOLD_TEST_PROGRAMS "/lock_holder_program", uri, name, "60000"});
    std::istringstream line{process.read_line(patience).value_or("")};
    process.kill(SIGKILL);
    std::string held;
    FencingToken token;
    line >> held >> token.value;
    ASSERT_TRUE(process.wait(patience));
    const auto record = client.status(name);
    ASSERT_TRUE(record);
    EXPECT_EQ(record->token, token);
    EXPECT_FALSE(client.acquire(name, {.on_conflict = OnConflict::fail_fast}));
  }
}

// --- Files -------------------------------------------------------------------------------------

TEST_F(SqliteLockFaultsTest, FileThatIsDeletedIsALossForWhoHoldsLocksInIt) {
  LockClient client{uri, as_new_runner()};
  LockClient other{uri, as_new_runner()};
  Lock lock = client.acquire("lock", {.ttl = 60s}).value();
  fs::remove(file);
  EXPECT_TRUE(wait_for_stop(lock.lost()));
  EXPECT_EQ(lock.loss_reason(), LossReason::vanished);
  // And a new beginning for all: the same for both, and with larger tokens.
  const Lock next = other.acquire("lock").value();
  EXPECT_GT(next.token(), lock.token());
  EXPECT_FALSE(client.acquire("lock", {.on_conflict = OnConflict::fail_fast}));
}

TEST_F(SqliteLockFaultsTest, FileThatIsNotOursIsRefused) {
  std::ofstream(file) << "This is a letter to my grandmother. " << std::string(4'000, '.');
  EXPECT_EQ(refusal(uri), Reason::wrong_type);
  fs::remove(file);
  EXPECT_EQ(refusal("sqlite:" + (dir.path() / "no" / "folder").string()), Reason::other);
  EXPECT_EQ(refusal("sqlite:" + dir.path().string()), Reason::wrong_type);

  // The tables of another program, as SQLite has them.
  sqlite::Connection{*sqlite::parse_sqlite_uri(uri)}.execute_script("CREATE TABLE letters (text)");
  EXPECT_EQ(refusal(uri), Reason::wrong_type);
}

TEST_F(SqliteLockFaultsTest, FileOfANewerLeaseholdIsRefused) {
  LockClient{uri, as_new_runner()}.acquire("lock");
  ask(*peek(uri), "UPDATE leasehold_schema SET version = 1000 WHERE kind = 'locks'");
  EXPECT_EQ(refusal(uri), Reason::newer_schema);
}

TEST_F(SqliteLockFaultsTest, ReadOnlyFileOrFolderIsRefused) {
  LockClient{uri, as_new_runner()}.acquire("lock");
  fs::permissions(file, fs::perms{0444});
  fs::permissions(dir.path(), fs::perms{0555});
  {
    const AsOrdinaryUser user;
    EXPECT_EQ(refusal(uri), Reason::permission);
    EXPECT_EQ(refusal("sqlite:" + (dir.path() / "new.db").string()), Reason::permission);
  }
  fs::permissions(dir.path(), fs::perms{0755});
  fs::permissions(file, fs::perms{0644});
  LockClient client{uri, as_new_runner()};
  EXPECT_TRUE(client.acquire("lock"));
}

TEST_F(SqliteLockFaultsTest, FullDiskIsSaidAndGetsBetter) {
  const fs::path disk = dir.path() / "disk";
  fs::create_directory(disk);
  if (mount("none", disk.c_str(), "tmpfs", 0, "size=512k") != 0) {
    GTEST_SKIP() << "may not mount a small disk here; sqlite_database_test has a full database";
  }
  {
    const std::string where = "sqlite:" + (disk / "locks.db").string();
    LockClient client{where, as_new_runner()};
    Lock held = client.acquire("held", {.ttl = 60s}).value();
    {
      std::ofstream filler(disk / "filler");
      const std::string block(4'096, 'x');
      while (filler.write(block.data(), 4'096).flush()) {
      }
    }
    std::string said;
    auto reason = Reason::other;
    for (int i = 0; i < 1'000 && said.empty(); ++i) {
      try {
        client.acquire("lock" + std::to_string(i),
                       {.metadata = {{"m", std::string(2'000, 'x')}}, .wait = 0ms});
      } catch (const ServerRefused& error) {
        said = error.what();
        reason = error.reason();
      }
    }
    EXPECT_TRUE(contains(said, "disk is full")) << said;
    EXPECT_EQ(reason, Reason::cannot_save);
    EXPECT_TRUE(held.valid());
    fs::remove(disk / "filler");
    EXPECT_TRUE(client.acquire("after", {.wait = patience}));
    EXPECT_EQ(held.extend(), Ownership::held);
    held.release();
  }
  EXPECT_EQ(umount2(disk.c_str(), MNT_DETACH), 0);
}

// --- Clocks ------------------------------------------------------------------------------------

// After a new start of the machine nobody who held a lock is alive.
TEST_F(SqliteLockFaultsTest, NewBootFreesAllLeasesAndRemembersWhoHeldThem) {
  const auto store_of_boot = [&](const std::string& boot) {
    return std::make_unique<sqlite::SqliteLockStore>(
        *sqlite::parse_sqlite_uri(uri),
        sqlite::SqliteLockStore::Options{.runner = RunnerId::generate(),
                                         .linger = 1h,
                                         .keep_counters = 1h,
                                         .timeout = patience,
                                         .boot_id = boot});
  };
  const std::string first_owner(32, 'a');
  const std::string second_owner(32, 'b');
  AcquireRequest request{.name = "lock", .owner = first_owner, .ttl = 1h, .heartbeat_every = 1min};
  FencingToken token;
  {
    const auto store = store_of_boot("first");
    token = std::get<Granted>(store->acquire(request)).token;
    AcquireRequest shared{
        .name = "shared", .owner = first_owner, .ttl = 1h, .kind = LockKind::shared};
    ASSERT_TRUE(std::holds_alternative<Granted>(store->acquire(shared)));
    AcquireRequest waiting{.name = "lock", .owner = second_owner, .ttl = 1h, .join = Join::tail};
    ASSERT_TRUE(std::holds_alternative<Conflict>(store->acquire(waiting)));
    EXPECT_TRUE(std::holds_alternative<Conflict>(
        store_of_boot("first")->acquire({.name = "lock", .owner = second_owner, .ttl = 1h})));
  }
  const auto store = store_of_boot("second");
  EXPECT_FALSE(store->status("shared"));
  const auto left = store->status("lock");
  ASSERT_TRUE(left);
  EXPECT_EQ(left->state, LockState::stale);
  EXPECT_EQ(left->waiter_count, 0U);
  const auto outcome = store->acquire({.name = "lock", .owner = second_owner, .ttl = 1h});
  const auto* grant = std::get_if<Granted>(&outcome);
  ASSERT_TRUE(grant);
  EXPECT_EQ(grant->kind, GrantKind::stale);
  EXPECT_GT(grant->token, token);
  EXPECT_EQ(grant->previous->token, token);
  LockRenewal late{.name = "lock", .owner = first_owner, .token = token, .ttl = 1h};
  store->renew({&late, 1}, patience);
  EXPECT_EQ(late.result, RenewalResult::taken);
}

// What other tests rely on when they stop a process.
TEST(PauseProcessTest, OthersCanWriteWhileAProcessIsPaused) {
  const TempDir dir;
  const std::string path = (dir.path() / "locks.db").string();
  Process busy{ProcessOptions{.argv = {program, "sqlite:" + path, "grants", "lock"},
                              .out = Output::discard()}};
  ASSERT_TRUE(eventually([&] { return fs::exists(path); }));
  const auto connection = connect_to(path);
  for (int i = 0; i < 100; ++i) {
    pause_outside_transactions(busy, "sqlite:" + path);
    EXPECT_TRUE(can_write(connection.get(), 0ms));
    busy.resume();
  }
}

}  // namespace
}  // namespace leasehold::testing
