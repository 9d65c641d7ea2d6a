#include "sqlite/database/watcher.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <vector>

#include "tests/support/eventually.hpp"
#include "tests/support/temp_dir.hpp"

namespace leasehold::sqlite {
namespace {

using leasehold::testing::eventually;
using leasehold::testing::TempDir;

constexpr EmbeddedText table{"0001_table", "", "CREATE TABLE notes (text TEXT)"};
constexpr std::array migrations{&table};
constexpr EmbeddedText add_note{"add_note", "", "INSERT INTO notes (text) VALUES (?1)"};
constexpr EmbeddedText count_notes{"count_notes", "", "SELECT count(*) FROM notes"};

std::shared_ptr<Database> open(const std::string& uri) {
  return open_database(*parse_sqlite_uri(uri),
                       {.schema = {.kind = "locks", .migrations = migrations},
                        .durability = Durability::process_crash});
}

void add(Database& database) {
  database.write([](Transaction& transaction) { transaction.execute(add_note, "a note"); });
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
                  auto row = connection.prepare(count_notes);
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
    const auto database = open(where);
    const auto another = open(where);
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
  const auto database = open(uri());
  const auto another = open("sqlite:" + (dir_.path() / "." / "store.db").string());
  EXPECT_EQ(&database->hub(), &another->hub());
  EXPECT_NE(&open("sqlite::memory:")->hub(), &open("sqlite::memory:a")->hub());
}

TEST_F(SqliteWatcherTest, ChangesByOtherConnectionsAreSeen) {
  const auto database = open(uri());
  const auto another = open(uri());
  Seen seen;
  const Watcher watcher(*database, "me", seen.callbacks());
  add(*another);
  EXPECT_TRUE(eventually([&] { return seen.notes == 1; }));
  add(*another);
  EXPECT_TRUE(eventually([&] { return seen.notes == 2; }));
}

TEST_F(SqliteWatcherTest, AReplacedFileIsAReset) {
  const auto database = open(uri());
  Seen seen;
  const Watcher watcher(*database, "me", seen.callbacks());
  add(*open(uri()));
  EXPECT_TRUE(eventually([&] { return seen.notes == 1; }));
  EXPECT_EQ(seen.resets, 0);
  std::filesystem::remove(dir_.path() / "store.db");
  const auto anew = open(uri());
  add(*anew);
  add(*anew);
  EXPECT_TRUE(eventually([&] { return seen.resets >= 1; }));
  EXPECT_TRUE(eventually([&] { return seen.notes == 2; }));
}

}  // namespace
}  // namespace leasehold::sqlite
