#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include "harness/temp_dir.hpp"
#include "sqlite/database/database.hpp"
#include "support/random.hpp"
#include "tests/support/event_recorder.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/lock_clients.hpp"
#include "tests/support/pause_process.hpp"
#include "tests/support/redis_keys.hpp"
#include "tests/support/shared_servers.hpp"
#include "tests/support/signal.hpp"
#include "tests/support/starvation.hpp"
#include "tests/support/store_kind.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {

/// Where the locks of one test are kept, with a look at it from outside. Nothing may be left there
/// when it is destroyed.
class LockStoreUnderTest {
 public:
  enum class Server {
    shared,  ///< with all tests of the program
    own,
  };

  explicit LockStoreUnderTest(StoreKind kind, Server server = Server::shared) : kind_(kind) {
    if (kind == StoreKind::redis) {
      if (server == Server::own) own_ = start_redis();
      uri_ = own_.server ? own_.uri : shared_redis_uri();
      return;
    }
    uri_ = kind == StoreKind::sqlite_file ? "sqlite:" + file().string()
                                          : "sqlite::memory:" + random_hex(8);
    // Also keeps what is in memory.
    database_ = sqlite::open_database(*sqlite::parse_sqlite_uri(uri_),
                                      {.timeout = patience,
                                       .schema = {.kind = "peek", .migrations = no_tables},
                                       .durability = sqlite::Durability::process_crash});
  }

  ~LockStoreUnderTest() {
    if (database_ || own_.server) expect_nothing_left();
  }

  StoreKind kind() const { return kind_; }
  bool is_redis() const { return kind_ == StoreKind::redis; }
  const std::string& uri() const { return uri_; }
  std::filesystem::path file() const { return dir_.path() / "locks.db"; }
  /// For tests of Redis itself.
  RedisEndpoint& redis() const {
    if (own_.server) return *own_.server;
    return shared_redis();
  }

  /// Whether anybody holds it, was granted it, or left a record.
  bool has_lock(const std::string& name) const {
    if (is_redis()) return key_exists(redis(), key_of(name));
    return number<holders>(name) > 0;
  }
  std::int64_t in_line(const std::string& name) const {
    if (is_redis()) return redis().command({"ZCARD", key_of(name) + ":line"}).integer;
    return number<waiters>(name);
  }
  /// Whether a token of this lock is remembered.
  bool has_token(const std::string& name) const {
    if (is_redis()) return key_exists(redis(), fence_key_of(name));
    return number<tokens>(name) > 0;
  }
  /// The number of permits that counts.
  std::int64_t permits(const std::string& name) const {
    if (is_redis()) {
      return std::stoll(redis().command({"HGET", key_of(name) + ":book", "#limit"}).string);
    }
    return number<permit_count>(name);
  }

  /// By the store's clock, as it is shown to people.
  std::chrono::system_clock::time_point now() const {
    if (!is_redis()) return std::chrono::system_clock::now();
    const auto time = redis().command({"TIME"});
    return std::chrono::system_clock::time_point{
        std::chrono::seconds{std::stoll(time.elements.at(0).string)} +
        std::chrono::microseconds{std::stoll(time.elements.at(1).string)}};
  }

  /// Pauses a process that uses this store, so that others can still use it.
  void pause(Process& process) const { pause_outside_transactions(process, uri_); }

  /// What somebody might do from outside.
  void delete_lock(const std::string& name) const {
    if (is_redis()) {
      redis().command({"DEL", key_of(name)});
    } else {
      change<remove_holders>(name);
    }
  }
  void forget_token(const std::string& name) const {
    if (is_redis()) {
      redis().command({"DEL", fence_key_of(name)});
    } else {
      change<remove_token>(name);
    }
  }
  /// Lets the lease of an exclusive holder end that much earlier.
  void shorten_lease(const std::string& name, std::chrono::milliseconds by) const {
    if (is_redis()) {
      const auto left = redis().command({"PTTL", key_of(name)}).integer;
      redis().command({"PEXPIRE", key_of(name), std::to_string(left - by.count())});
      return;
    }
    database_->write(
        [&](sqlite::Transaction& transaction) { transaction.execute(shorten, name, by.count()); });
  }
  /// Whether as many clients listen: one that does not yet can lose its place for a moment. Those
  /// of SQLite do from their first call on.
  [[nodiscard]] ::testing::AssertionResult all_listen(std::size_t clients) const {
    return is_redis() ? leasehold::testing::all_listen(redis(), clients)
                      : ::testing::AssertionSuccess();
  }
  /// Lets a client that has not acquired anything yet listen: true when it does. For clients of a
  /// shared store, that all_listen() cannot count.
  [[nodiscard]] ::testing::AssertionResult listens(LockClient& client,
                                                   const std::string& name) const {
    const auto channels = [this] {
      std::set<std::string> names;
      if (!is_redis()) return names;
      for (const auto& each : redis().command({"PUBSUB", "CHANNELS", "lh:client:*"}).elements) {
        names.insert(each.string);
      }
      return names;
    };
    const auto before = channels();
    client.acquire(name + ":listen").value().release();
    return eventually(
        [&] {
          const auto now = channels();
          return !is_redis() ||
                 !std::includes(before.begin(), before.end(), now.begin(), now.end());
        },
        patience);
  }

  /// Runs the scenario again if it fails after a thread, or the store, got no time for longer than
  /// this: see repeat_if_starved().
  template <class Scenario>
  void repeat_if_stalled(std::chrono::milliseconds limit, const Scenario& scenario) const {
    const auto ask = [this] {
      if (is_redis()) {
        redis().command({"PING"});
      } else {
        has_lock("");
      }
    };
    repeat_if_starved([&] { return StallWatch{limit, ask}; }, scenario);
  }
  /// The same for what depends on heartbeats: several stalls add up until a lock is lost.
  template <class Scenario>
  void repeat_if_heartbeats_starved(std::chrono::milliseconds ttl, const Scenario& scenario) const {
    repeat_if_stalled(ttl / 5, scenario);
  }
  /// Of a store of its own.
  void lose_all_data() const {
    if (own_.server) own_.server->command({"FLUSHALL"});
    if (kind_ == StoreKind::sqlite_file) std::filesystem::remove(file());
    if (kind_ == StoreKind::sqlite_memory) {
      database_->write([](sqlite::Transaction& transaction) {
        transaction.execute(remove_parties);
        transaction.execute(remove_tokens);
      });
    }
  }
  /// The same, and somebody has this lock, which was held: in one step, so that nobody gets in
  /// between.
  void lose_all_data_and_occupy(const std::string& name) const {
    if (own_.server) {
      own_.server->command(
          {"EVAL", "redis.call('FLUSHALL') redis.call('SET', KEYS[1], 'somebody', 'PX', 60000)",
           "1", key_of(name)});
      return;
    }
    database_->write([&](sqlite::Transaction& transaction) {
      transaction.execute(remove_others, name);
      transaction.execute(occupy, name, random_hex(16));
      transaction.execute(remove_tokens);
    });
  }

  /// Nothing but tokens, which are forgotten in the end, may be left of locks that nobody holds.
  void expect_nothing_left() const {
    if (is_redis())
      return leasehold::testing::expect_nothing_left(
          redis(), own_.server ? "*" : "lh:{" + name_prefix() + "*");
    EXPECT_EQ(number<everything>(""), 0) << "left behind";
  }
  /// The same for locks whose names begin like this.
  void expect_nothing_left_of(const std::string& name) const {
    if (is_redis()) return leasehold::testing::expect_nothing_left(redis(), "lh:{" + name + "*");
    EXPECT_EQ(number<everything>(name), 0) << "left behind";
  }

 private:
  static constexpr EmbeddedText no_table{"0001_none", "", "SELECT 1"};
  static constexpr std::array no_tables{&no_table};
  static constexpr EmbeddedText holders{
      "", "", "SELECT count(*) FROM lock_parties WHERE name = ?1 AND state <> 'waiting'"};
  static constexpr EmbeddedText waiters{
      "", "", "SELECT count(*) FROM lock_parties WHERE name = ?1 AND state = 'waiting'"};
  static constexpr EmbeddedText tokens{"", "", "SELECT count(*) FROM lock_tokens WHERE name = ?1"};
  static constexpr EmbeddedText permit_count{"", "",
                                             "SELECT permits FROM lock_tokens WHERE name = ?1"};
  static constexpr EmbeddedText everything{
      "", "",
      "SELECT (SELECT count(*) FROM lock_parties WHERE substr(name, 1, length(?1)) = ?1)"
      "     + (SELECT count(*) FROM lock_tokens WHERE substr(name, 1, length(?1)) = ?1"
      "        AND (permits IS NOT NULL OR place IS NOT NULL))"};
  static constexpr EmbeddedText shorten{
      "", "",
      "UPDATE lock_parties SET ends = ends - ?2, gone = gone - ?2 "
      "WHERE name = ?1 AND state = 'held'"};
  static constexpr EmbeddedText remove_holders{
      "", "", "DELETE FROM lock_parties WHERE name = ?1 AND state <> 'waiting'"};
  static constexpr EmbeddedText remove_token{"", "", "DELETE FROM lock_tokens WHERE name = ?1"};
  static constexpr EmbeddedText remove_parties{"", "", "DELETE FROM lock_parties"};
  static constexpr EmbeddedText remove_tokens{"", "", "DELETE FROM lock_tokens"};
  static constexpr EmbeddedText remove_others{
      "", "", "DELETE FROM lock_parties WHERE name <> ?1 OR state <> 'held'"};
  static constexpr EmbeddedText occupy{
      "", "", "UPDATE lock_parties SET owner = ?2, client = '' WHERE name = ?1"};

  template <const EmbeddedText& sql>
  std::int64_t number(const std::string& name) const {
    return database_->read([&](sqlite::Transaction& transaction) {
      auto row = transaction.prepare(sql, name);
      row.step();
      return row.integer(0);
    });
  }
  template <const EmbeddedText& sql>
  void change(const std::string& name) const {
    database_->write([&](sqlite::Transaction& transaction) { transaction.execute(sql, name); });
  }

  const StoreKind kind_;
  RedisUnderTest own_;
  TempDir dir_;
  std::string uri_;
  std::shared_ptr<sqlite::Database> database_;
};

/// The base of fixtures. See store_kind.hpp.
class OnEveryLockStore : public ::testing::TestWithParam<StoreKind> {
 public:
  static constexpr StoreKind server_kind = StoreKind::redis;

 protected:
  LockStoreUnderTest store{GetParam()};
};

/// For tests that count or flush what is there.
class OnEveryLockStoreOfItsOwn : public ::testing::TestWithParam<StoreKind> {
 public:
  static constexpr StoreKind server_kind = StoreKind::redis;

 protected:
  LockStoreUnderTest store{GetParam(), LockStoreUnderTest::Server::own};
};

/// For what is about Redis itself.
class OnRedis : public ::testing::Test {
 protected:
  LockStoreUnderTest store{StoreKind::redis};
};
class OnARedisOfItsOwn : public ::testing::Test {
 protected:
  LockStoreUnderTest store{StoreKind::redis, LockStoreUnderTest::Server::own};
};

}  // namespace leasehold::testing
