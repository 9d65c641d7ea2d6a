#include "sqlite/database/database.hpp"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "harness/temp_dir.hpp"
#include "leasehold/errors.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/refusal_of.hpp"

namespace leasehold::sqlite {
namespace {

using namespace std::chrono_literals;
using leasehold::harness::TempDir;
using leasehold::testing::contains;
using leasehold::testing::message_of;
using Reason = ServerRefused::Reason;

constexpr EmbeddedText first{"0001_first", "",
                             "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)"};
constexpr EmbeddedText second{"0002_second", "", "ALTER TABLE notes ADD COLUMN more INTEGER"};
constexpr EmbeddedText forget{"forget", "", "DELETE FROM notes"};
constexpr EmbeddedText other{"0001_other", "", "CREATE TABLE others (id INTEGER PRIMARY KEY)"};
constexpr std::array one_migration{&first};
constexpr std::array two_migrations{&first, &second};
constexpr std::array other_migrations{&other};

constexpr EmbeddedText add_note{"add_note", "", "INSERT INTO notes (text) VALUES (?1)"};
constexpr EmbeddedText count_notes{"count_notes", "", "SELECT count(*) FROM notes"};
constexpr EmbeddedText echo{"echo", "", "SELECT ?1, ?2, ?3, ?4"};

OpenOptions options_with(std::span<const EmbeddedText* const> migrations) {
  return {.timeout = 10s,
          .schema = {.kind = "locks", .migrations = migrations, .on_new_boot = &forget},
          .durability = Durability::process_crash};
}

std::shared_ptr<Database> open(const std::string& uri,
                               const OpenOptions& options = options_with(one_migration)) {
  return open_database(*parse_sqlite_uri(uri), options);
}

void add(Database& database, std::string_view text) {
  database.write([&](Transaction& transaction) { transaction.execute(add_note, text); });
}

std::int64_t count(Database& database) {
  return database.read([](Transaction& transaction) {
    auto found = transaction.prepare(count_notes);
    found.step();
    return found.integer(0);
  });
}

Reason reason_of(const std::string& uri, const OpenOptions& options = options_with(one_migration)) {
  return leasehold::testing::refusal_of([&] { open(uri, options); }, uri);
}

class SqliteDatabaseTest : public ::testing::Test {
 protected:
  std::string file() const { return (dir_.path() / "store.db").string(); }
  std::string uri() const { return "sqlite:" + file(); }

  /// What another program does with the file.
  void elsewhere(const char* sql) const {
    sqlite3* handle = nullptr;
    ASSERT_EQ(sqlite3_open(file().c_str(), &handle), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(handle, sql, nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(handle);
    sqlite3_close(handle);
  }

  TempDir dir_;
};

TEST(SqliteUriTest, FormsAreRead) {
  EXPECT_FALSE(parse_sqlite_uri("redis://localhost"));
  EXPECT_EQ(parse_sqlite_uri("sqlite::memory:")->kind, SqliteUri::Kind::private_memory);
  EXPECT_EQ(parse_sqlite_uri("sqlite::memory:a-b_1.c")->name, "a-b_1.c");
  EXPECT_EQ(parse_sqlite_uri("sqlite:a/b.db")->name, "a/b.db");
  EXPECT_EQ(parse_sqlite_uri("sqlite:/a/b.db")->name, "/a/b.db");
  EXPECT_EQ(parse_sqlite_uri("sqlite:///a/b.db")->name, "/a/b.db");
  EXPECT_EQ(parse_sqlite_uri("sqlite:a/b.db")->display(), "sqlite:a/b.db");
  EXPECT_EQ(parse_sqlite_uri("sqlite:///a/b.db")->display(), "sqlite:/a/b.db");
}

TEST(SqliteUriTest, WhatIsWrongIsNamed) {
  const auto refusal_of = [](const char* uri) {
    return message_of<InvalidArgument>([&] { parse_sqlite_uri(uri); });
  };
  EXPECT_TRUE(contains(refusal_of("sqlite:"), "the path is missing"));
  EXPECT_TRUE(contains(refusal_of("sqlite::memory:a b"), "\"a b\""));
  EXPECT_TRUE(contains(refusal_of("sqlite:a.db?mode=ro"), "no options"));
  EXPECT_TRUE(contains(refusal_of("sqlite://host/a.db"), "names a host"));
  EXPECT_TRUE(contains(refusal_of("sqlite::memroy:"), "\":memroy:\""));
  EXPECT_TRUE(contains(refusal_of("sqlite:a\nb"), "control character"));
  EXPECT_TRUE(contains(refusal_of("sqlite:"), std::string(sqlite_uri_forms)));
}

TEST_F(SqliteDatabaseTest, ValuesAreBoundAndRead) {
  const auto database = open("sqlite::memory:");
  database->read([](Transaction& transaction) {
    const std::optional<int> none;
    auto row = transaction.prepare(echo, "a'b", std::int64_t{1} << 60, none, 0.5);
    ASSERT_TRUE(row.step());
    EXPECT_EQ(row.text(0), "a'b");
    EXPECT_EQ(row.integer(1), std::int64_t{1} << 60);
    EXPECT_TRUE(row.is_null(2));
    EXPECT_EQ(row.real(3), 0.5);
    EXPECT_FALSE(row.step());
  });
}

TEST_F(SqliteDatabaseTest, AnExceptionRollsBack) {
  for (const std::string& where : {std::string("sqlite::memory:"), uri()}) {
    const auto database = open(where);
    EXPECT_THROW(database->write([&](Transaction& transaction) {
      transaction.execute(add_note, "lost");
      throw std::runtime_error("no");
    }),
                 std::runtime_error);
    add(*database, "kept");
    EXPECT_EQ(count(*database), 1);
  }
}

TEST_F(SqliteDatabaseTest, ASingleStatementIsATransaction) {
  const auto database = open(uri());
  const auto changed = database->single(
      [&](Transaction& transaction) { return transaction.execute(add_note, "one"); });
  EXPECT_EQ(changed, 1);
  EXPECT_EQ(count(*open(uri())), 1);
}

TEST_F(SqliteDatabaseTest, PrivateMemoryIsPrivateAndNamedMemoryIsShared) {
  add(*open("sqlite::memory:"), "gone");
  EXPECT_EQ(count(*open("sqlite::memory:")), 0);

  const auto database = open("sqlite::memory:shared");
  add(*database, "seen");
  EXPECT_EQ(count(*open("sqlite::memory:shared")), 1);
  EXPECT_EQ(count(*open("sqlite::memory:another")), 0);
}

TEST_F(SqliteDatabaseTest, NamedMemoryIsGoneWithItsLastUser) {
  add(*open("sqlite::memory:brief"), "gone");
  EXPECT_EQ(count(*open("sqlite::memory:brief")), 0);
}

TEST_F(SqliteDatabaseTest, KindsShareADatabase) {
  auto options = options_with(other_migrations);
  options.schema.kind = "tasks";
  for (const std::string& where : {std::string("sqlite::memory:both"), uri()}) {
    const auto locks = open(where);
    add(*locks, "stays");
    open(where, options);
    EXPECT_EQ(count(*locks), 1);
  }
}

TEST_F(SqliteDatabaseTest, MigrationsGoForward) {
  add(*open(uri()), "stays");
  const auto database = open(uri(), options_with(two_migrations));
  EXPECT_EQ(count(*database), 1);
  EXPECT_EQ(reason_of(uri(), options_with(one_migration)), Reason::newer_schema);
}

TEST_F(SqliteDatabaseTest, ANewBootEndsLeases) {
  auto options = options_with(one_migration);
  options.boot_id = "first";
  add(*open(uri(), options), "of the first boot");
  EXPECT_EQ(count(*open(uri(), options)), 1);
  options.boot_id = "second";
  EXPECT_EQ(count(*open(uri(), options)), 0);
  add(*open(uri(), options), "of the second boot");
  EXPECT_EQ(count(*open(uri(), options)), 1);
}

TEST_F(SqliteDatabaseTest, AFileOfSomebodyElseIsLeftAlone) {
  elsewhere("CREATE TABLE theirs (x)");
  EXPECT_EQ(reason_of(uri()), Reason::wrong_type);
  elsewhere("DROP TABLE theirs; PRAGMA application_id = 7; PRAGMA user_version = 1");
  EXPECT_EQ(reason_of(uri()), Reason::wrong_type);
}

TEST_F(SqliteDatabaseTest, AFileThatIsNoDatabaseIsRefused) {
  std::ofstream(file()) << std::string(5000, 'x');
  EXPECT_EQ(reason_of(uri()), Reason::wrong_type);
}

TEST_F(SqliteDatabaseTest, APathThatLeadsNowhereIsRefused) {
  EXPECT_EQ(reason_of("sqlite:" + (dir_.path() / "none" / "store.db").string()), Reason::other);
  EXPECT_EQ(reason_of("sqlite:" + dir_.path().string()), Reason::wrong_type);
}

TEST_F(SqliteDatabaseTest, AFullDatabaseRefusesAndChangesNothing) {
  const auto database = open(uri());
  add(*database, "kept");
  database->read(
      [](Transaction& transaction) { transaction.pragma("PRAGMA max_page_count = 10"); });
  const std::string large(100'000, 'x');
  EXPECT_TRUE(contains(message_of<ServerRefused>([&] { add(*database, large); }), "disk is full"));
  EXPECT_EQ(count(*database), 1);
  add(*database, "small");
  EXPECT_EQ(count(*database), 2);
}

/// Every write to a file fails until it is destroyed. SQLite lets its system calls be replaced.
class FailingDisk {
 public:
  FailingDisk() { replace(reinterpret_cast<sqlite3_syscall_ptr>(&fail)); }
  ~FailingDisk() { replace(nullptr); }  // by the real ones

 private:
  static ssize_t fail(int, const void*, size_t, off_t) {
    errno = EIO;
    return -1;
  }
  static void replace(sqlite3_syscall_ptr by) {
    sqlite3_vfs* system = sqlite3_vfs_find(nullptr);
    // Which of them it uses depends on how it was built.
    for (const char* name : {"write", "pwrite", "pwrite64"})
      system->xSetSystemCall(system, name, by);
  }
};

TEST_F(SqliteDatabaseTest, ADiskThatFailsInACommitLeavesTheOutcomeUnknown) {
  const auto database = open(uri());
  add(*database, "kept");
  {
    const FailingDisk failing;
    EXPECT_TRUE(contains(message_of<OutcomeUnknown>([&] { add(*database, "perhaps"); }), uri()));
    EXPECT_THROW(database->single([](Transaction& transaction) {
      return transaction.execute(add_note, "perhaps");
    }),
                 OutcomeUnknown);
    EXPECT_EQ(count(*database), 1) << "reading goes on";
  }
  add(*database, "later");
  EXPECT_EQ(count(*database), 2);
}

TEST_F(SqliteDatabaseTest, ADeletedFileIsMadeAnew) {
  const auto database = open(uri());
  add(*database, "gone with it");
  std::filesystem::remove(file());
  add(*database, "in the new one");
  EXPECT_EQ(count(*database), 1);
  EXPECT_EQ(count(*open(uri())), 1);
}

TEST_F(SqliteDatabaseTest, WhoIsInTheWayIsWaitedForAndCounted) {
  const auto database = open(uri());
  const auto another = open(uri());
  std::jthread waiting;
  another->write([&](Transaction&) {
    waiting = std::jthread([&] { add(*database, "in the end"); });
    while (database->busy_retries() < 3) std::this_thread::sleep_for(1ms);
  });
  waiting.join();
  EXPECT_EQ(count(*another), 1);
  EXPECT_EQ(another->busy_retries(), 0U);
}

TEST_F(SqliteDatabaseTest, WhoStaysInTheWayIsNotWaitedForLongerThanTheTimeout) {
  const auto database = open(uri());
  const auto another = open(uri());
  another->write([&](Transaction&) {
    const auto message = message_of<Unavailable>([&] {
      database->write(20ms, [](Transaction& transaction) { transaction.execute(add_note, "no"); });
    });
    EXPECT_TRUE(contains(message, "20 ms")) << message;
  });
  EXPECT_EQ(count(*database), 0);
}

/// Goes somewhere else until it is destroyed.
class WorkingDirectory {
 public:
  explicit WorkingDirectory(const std::filesystem::path& there) { current_path(there); }
  ~WorkingDirectory() { current_path(before_); }

 private:
  const std::filesystem::path before_ = std::filesystem::current_path();
};

TEST_F(SqliteDatabaseTest, ARelativePathLeadsToTheSameFileFromEveryDirectory) {
  const TempDir elsewhere;
  std::optional<WorkingDirectory> directory(dir_.path());
  const auto database = open("sqlite:store.db");
  directory.reset();
  directory.emplace(elsewhere.path());
  add(*database, "here");
  const auto twin = open_database(database->uri(), options_with(one_migration));
  EXPECT_EQ(count(*twin), 1);
  EXPECT_TRUE(database->connect()->prepare(count_notes).step());
  EXPECT_EQ(&twin->hub(), &open(uri())->hub());
  EXPECT_EQ(twin->where(), "sqlite:store.db");
  EXPECT_TRUE(std::filesystem::is_empty(elsewhere.path()));

  // The same when it is opened anew.
  std::filesystem::remove(file());
  add(*database, "in the new one");
  EXPECT_TRUE(std::filesystem::exists(file()));
  EXPECT_TRUE(std::filesystem::is_empty(elsewhere.path()));
}

TEST_F(SqliteDatabaseTest, TheVersionFoundIsThatOfThisKindAndThisTime) {
  auto tasks = options_with(other_migrations);
  tasks.schema.kind = "tasks";
  for (const std::string& where : {std::string("sqlite::memory:versions"), uri()}) {
    const auto parsed = *parse_sqlite_uri(where);
    const auto locks = open_and_look(parsed, options_with(two_migrations));
    EXPECT_EQ(locks.version_found, 0);
    EXPECT_EQ(open_and_look(parsed, options_with(two_migrations)).version_found, 2);
    EXPECT_EQ(open_and_look(parsed, tasks).version_found, 0);
    EXPECT_EQ(open_and_look(parsed, tasks).version_found, 1);
  }
}

TEST_F(SqliteDatabaseTest, ManyThreadsAndConnectionsLoseNothing) {
  constexpr int each = 50;
  {
    const auto shared = open(uri());
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int n = 0; n < each; ++n) add(*shared, "shared");
      });
      threads.emplace_back([&] {
        const auto own = open(uri());
        for (int n = 0; n < each; ++n) add(*own, "own");
      });
    }
  }
  EXPECT_EQ(count(*open(uri())), 8 * each);
}

TEST_F(SqliteDatabaseTest, ManyOpenANewFileAtOnce) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { add(*open(uri()), "here"); });
  }
  threads.clear();
  EXPECT_EQ(count(*open(uri())), 8);
}

}  // namespace
}  // namespace leasehold::sqlite
