#include "tests/history/lock_place.hpp"

#include <algorithm>
#include <stdexcept>
#include <thread>
#include <utility>

#include "harness/temp_dir.hpp"
#include "sqlite/database/connection.hpp"
#include "sqlite/database/sqlite_errors.hpp"
#include "sqlite/database/sqlite_uri.hpp"
#include "support/random.hpp"
#include "tests/history/lock_workload.hpp"
#include "tests/support/eventually.hpp"

namespace leasehold::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Longer than every lease, so that all of them have ended.
constexpr milliseconds longest_stall{2 * longest_ttl};

std::unique_ptr<RedisServer> make_server() {
  return std::make_unique<RedisServer>(
      RedisServerOptions{.config_lines = {"repl-diskless-sync-delay 0"}});
}

void expect_ok(const harness::RedisReply& reply, const std::string& what) {
  if (reply.is_error()) throw std::runtime_error(what + ": " + reply.string);
}

void follow(const RedisServer& replica, int port) {
  expect_ok(replica.command({"REPLICAOF", "127.0.0.1", std::to_string(port)}), "REPLICAOF");
}

void become_primary(const RedisServer& replica) {
  expect_ok(replica.command({"REPLICAOF", "NO", "ONE"}), "REPLICAOF NO ONE");
}

}  // namespace

Fault LockPlace::named(const std::string& name, std::function<void()> happen) const {
  return {name,
          [this, name, happen = std::move(happen)] { record_around(Op::fault, name, happen); }};
}

void LockPlace::record_around(Op op, const std::string& reason,
                              const std::function<void()>& happen) const {
  Event event;
  event.op = op;
  event.grant = event.lock = "-";
  event.reason = reason;
  for (const Phase phase : {Phase::invoke, Phase::ok}) {
    if (phase == Phase::ok) happen();
    event.phase = phase;
    event.time = history_now();
    recorder_.record(event);
  }
}

void LockPlace::record_kill(Process& process, const std::string& name) const {
  process.wait(seconds{10});
  Event event;
  event.time = history_now();
  event.process = name;
  event.grant = event.lock = "-";
  event.op = Op::kill;
  recorder_.record(event);
}

void LockPlace::record_sight(Op op, const std::string& lock, const std::string& reason) const {
  Event event;
  event.time = history_now();
  event.op = op;
  event.grant = "-";
  event.lock = lock;
  event.reason = reason;
  recorder_.record(event);
}

RedisPlace::RedisPlace(const std::filesystem::path& history)
    : LockPlace(history),
      primary_(make_server()),
      replica_(make_server()),
      way_(primary_->port()),
      bad_way_(primary_->port()),
      replication_(primary_->port()) {
  start_replication();
}

std::vector<Fault> RedisPlace::faults(Random& random) {
  return {
      named("flush", [this] { flush(); }),
      named("script_flush",
            [this] {
              expect_ok(primary_->command({"SCRIPT", "FLUSH"}), "SCRIPT FLUSH");
            }),
      named("restart_empty",
            [this] { lose_data("restart_empty", [this] { primary_->restart(Data::lost); }); }),
      named("cut", [this] { bad_way_.cut(); }),
      named("blackhole", [this, &random] { blackhole(between(20, 400, random)); }),
      named("short_stall", [this, &random] { stall(between(20, 300, random)); }),
  };
}

std::vector<Fault> RedisPlace::long_faults(Random& random) {
  return {
      named("stall", [this, &random] { stall(between(50, int{longest_stall.count()}, random)); }),
      named("stall_past_ttl", [this] { stall(longest_stall); }),
      named("full", [this, &random] { fill_up(between(50, 800, random)); }),
      named("failover_killed",
            [this, &random] { fail_over(between(20, 600, random), Old::killed); }),
      named("failover_demoted",
            [this, &random] { fail_over(between(20, 600, random), Old::demoted); }),
      named("old_copy", [this, &random] { restart_from_old_copy(between(20, 600, random)); }),
  };
}

void RedisPlace::flush() {
  lose_data("flush", [this] { expect_ok(primary_->command({"FLUSHALL"}), "FLUSHALL"); });
}

void RedisPlace::blackhole(milliseconds time) {
  bad_way_.blackhole(true);
  std::this_thread::sleep_for(time);
  bad_way_.blackhole(false);
}

void RedisPlace::stall(milliseconds time) {
  std::vector<std::string> before;
  const auto somebody_holds = [&] { return !(before = renewed_holders()).empty(); };
  // Without a holder there is nothing to be seen afterwards; but perhaps there is none for long.
  static_cast<void>(eventually(somebody_holds, milliseconds{500}));
  primary_->pause();
  std::this_thread::sleep_for(time);
  primary_->resume();
  if (time <= longest_ttl + milliseconds{50}) return;
  // Every lease has ended while Redis stood still, and nobody who knew of it may have it back. What
  // was sent meanwhile may be executed after the first look.
  for (int look = 0; look < 3; ++look) {
    for (const std::string& holder : renewed_holders()) {
      if (std::find(before.begin(), before.end(), holder) == before.end()) continue;
      const auto space = holder.find(' ');
      record_sight(Op::revived, holder.substr(0, space), "owner_" + holder.substr(space + 1));
    }
    std::this_thread::sleep_for(milliseconds{5});
  }
}

std::vector<std::string> RedisPlace::renewed_holders() const {
  std::vector<std::string> found;
  for (const std::string& lock : locks_of_workload()) {
    // In one step: whether it is held must be seen of the same value.
    const harness::RedisReply reply = primary_->command(
        {"EVAL", "return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}", "1",
         "lh:{" + lock + "}"});
    if (reply.elements.size() != 2) continue;
    const std::string& value = reply.elements[0].string;
    const auto linger = value.find("\"linger\":");
    // The record has the token from its first heartbeat on. (A lock of readers or permits has one
    // too, but no owner.)
    if (value.size() < 33 || value.starts_with(std::string(32, '0')) || value[32] != '=' ||
        linger == std::string::npos || value.find("\"token\":") == std::string::npos) {
      continue;
    }
    if (reply.elements[1].integer > std::stoll(value.substr(linger + 9))) {
      found.push_back(lock + " " + value.substr(0, 32));
    }
  }
  return found;
}

void RedisPlace::fill_up(milliseconds time) {
  // From now on every command is refused that may need memory.
  expect_ok(primary_->command({"CONFIG", "SET", "maxmemory", "1"}), "maxmemory");
  std::this_thread::sleep_for(time);
  expect_ok(primary_->command({"CONFIG", "SET", "maxmemory", "0"}), "maxmemory");
}

void RedisPlace::lose_data(const std::string& how, const std::function<void()>& lose) {
  record_around(Op::data_loss, how, lose);
}

void RedisPlace::start_replication() {
  replication_.retarget(primary_->port());
  replication_.cut();
  replication_.blackhole(false);
  follow(*replica_, replication_.port());
}

void RedisPlace::wait_for_replica() const {
  const auto follows = [this] {
    return replica_->command({"INFO", "replication"}).string.find("master_link_status:up") !=
           std::string::npos;
  };
  if (!eventually(follows, seconds{60})) throw std::runtime_error("the replica does not follow");
}

void RedisPlace::fail_over(milliseconds lag, Old old) {
  wait_for_replica();
  replication_.blackhole(true);
  std::this_thread::sleep_for(lag);
  lose_data(old == Old::killed ? "failover_killed" : "failover_demoted", [&] {
    // Never two primaries at once.
    if (old == Old::killed) {
      primary_->kill();
    } else {
      follow(*primary_, replica_->port());
    }
    become_primary(*replica_);
    std::swap(primary_, replica_);
    way_.retarget(primary_->port());
    bad_way_.retarget(primary_->port());
  });
  if (old == Old::killed) replica_->start();
  start_replication();
}

void RedisPlace::restart_from_old_copy(milliseconds age) {
  // Refused while a child process saves the data for the replica.
  const auto saved = [this] { return !primary_->command({"SAVE"}).is_error(); };
  if (!eventually(saved, seconds{60})) throw std::runtime_error("SAVE is refused");
  std::this_thread::sleep_for(age);
  lose_data("old_copy", [this] {
    primary_->kill();
    primary_->start();
  });
}

namespace {

class SqlitePlace : public LockPlace {
 public:
  SqlitePlace(StoreKind kind, const std::filesystem::path& history)
      : LockPlace(history), uri_(*sqlite::parse_sqlite_uri(uri_in(kind))) {}

  std::string uri() const override { return uri_.display(); }
  std::vector<Fault> faults(Random& random) override {
    if (uri_.kind != sqlite::SqliteUri::Kind::file) return {{"none", [] {}}};  // nobody gets at it
    return {named("keep_locked", [this, &random] { keep_locked(between(20, 400, random)); }),
            named("checkpoint", [this] { checkpoint(); })};
  }

 private:
  std::string uri_in(StoreKind kind) const {
    return kind == StoreKind::sqlite_file ? "sqlite:" + (dir_.path() / "locks.db").string()
                                          : "sqlite::memory:" + random_hex(8);
  }

  /// For longer than some calls are patient.
  void keep_locked(milliseconds time) const {
    sqlite::Connection connection{uri_};
    const auto begun = [&] {
      try {
        connection.begin_immediate();
        return true;
      } catch (const sqlite::Busy&) {
        return false;
      }
    };
    if (!eventually(begun, seconds{60})) throw std::runtime_error("the file stays locked");
    std::this_thread::sleep_for(time);
    connection.rollback();
  }

  void checkpoint() const {
    try {
      sqlite::Connection{uri_}.pragma("PRAGMA wal_checkpoint(TRUNCATE)");
    } catch (const sqlite::Busy&) {  // another time
    }
  }

  const TempDir dir_;
  const sqlite::SqliteUri uri_;
};

}  // namespace

std::unique_ptr<LockPlace> make_place(StoreKind kind, const std::filesystem::path& history) {
  if (kind == StoreKind::redis) return std::make_unique<RedisPlace>(history);
  return std::make_unique<SqlitePlace>(kind, history);
}

}  // namespace leasehold::testing
