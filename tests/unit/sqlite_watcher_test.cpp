#include "sqlite/database/watcher.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <vector>

#include "harness/temp_dir.hpp"
#include "tests/support/eventually.hpp"

namespace leasehold::sqlite {
namespace {

using leasehold::harness::TempDir;
using leasehold::testing::eventually;

constexpr EmbeddedText table{"0001_table", "", "CREATE TABLE notes (text TEXT)"};
constexpr std::array migrations{&table};
constexpr EmbeddedText add_watched_note{"add_watched_note", "",
                                        "INSERT INTO notes (text) VALUES (?1)"};
constexpr EmbeddedText count_watched_notes{"count_watched_notes", "", "SELECT count(*) FROM notes"};

std::shared_ptr<Database> open_watched(const std::string& uri) {
  return open_database(*parse_sqlite_uri(uri),
                       {.schema = {.kind = "locks", .migrations = migrations},
                        .durability = Durability::process_crash});
}

void add(Database& database) {
  database.write([](Transaction& transaction) { transaction.execute(add_watched_note, "a note"); });
}

/// Remembers what the watcher has reported.
struct Seen {
  Watcher::Callbacks callbacks() {
    return {.on_message =
                [this](std::string_view message) {
                  const ThreadLock lock(mutex);
                  messages.emplace_back(message);
                },
            .on_change =
                [this](Connection& connection) {
                  auto row = connection.prepare(count_watched_notes);
                  row.step();
                  notes = row.integer(0);
                },
            .on_reset = [this] { ++resets; }};
  }
  std::vector<std::string> heard() {
    const ThreadLock lock(mutex);
    return messages;
  }

  std::atomic<std::int64_t> notes{0};
  std::atomic<int> resets{0};
  ThreadMutex mutex;
  std::vector<std::string> messages LEASEHOLD_GUARDED_BY(mutex);
};

class SqliteWatcherTest : public ::testing::Test {
 protected:
  std::string uri() const { return "sqlite:" + (dir_.path() / "store.db").string(); }
  TempDir dir_;
};

TEST_F(SqliteWatcherTest, MessagesOfThisProcessArrive) {
  for (const std::string& where : {std::string("sqlite::memory:watched"), uri()}) {
    const auto database = open_watched(where);
    const auto another = open_watched(where);
    Seen seen;
    const Watcher watcher(*database, "me", seen.callbacks());
    EXPECT_TRUE(another->hub().is_heard("me"));
    EXPECT_FALSE(another->hub().is_heard("somebody else"));
    another->hub().tell("me", "hello");
    another->hub().tell("somebody else", "no");
    EXPECT_TRUE(eventually([&] { return seen.heard() == std::vector<std::string>{"hello"}; }));
  }
}

TEST_F(SqliteWatcherTest, OnePathIsOneHubHoweverItIsWritten) {
  const auto database = open_watched(uri());
  const auto another = open_watched("sqlite:" + (dir_.path() / "." / "store.db").string());
  EXPECT_EQ(&database->hub(), &another->hub());
  EXPECT_NE(&open_watched("sqlite::memory:")->hub(), &open_watched("sqlite::memory:a")->hub());
}

TEST_F(SqliteWatcherTest, ChangesByOtherConnectionsAreSeen) {
  const auto database = open_watched(uri());
  const auto another = open_watched(uri());
  Seen seen;
  const Watcher watcher(*database, "me", seen.callbacks());
  add(*another);
  EXPECT_TRUE(eventually([&] { return seen.notes == 1; }));
  add(*another);
  EXPECT_TRUE(eventually([&] { return seen.notes == 2; }));
}

TEST_F(SqliteWatcherTest, AReplacedFileIsAReset) {
  const auto database = open_watched(uri());
  Seen seen;
  const Watcher watcher(*database, "me", seen.callbacks());
  add(*open_watched(uri()));
  EXPECT_TRUE(eventually([&] { return seen.notes == 1; }));
  EXPECT_EQ(seen.resets, 0);
  std::filesystem::remove(dir_.path() / "store.db");
  const auto anew = open_watched(uri());
  add(*anew);
  add(*anew);
  EXPECT_TRUE(eventually([&] { return seen.resets >= 1; }));
  EXPECT_TRUE(eventually([&] { return seen.notes == 2; }));
}

}  // namespace
}  // namespace leasehold::sqlite
