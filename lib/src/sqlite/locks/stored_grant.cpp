#include "sqlite/locks/stored_grant.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sqlite/database/machine_clock.hpp"
#include "sqlite_lock_queries.hpp"

namespace leasehold::inline v0::sqlite {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::system_clock;

namespace {

system_clock::time_point to_wall(milliseconds time, const ClockReading& clock) {
  return system_clock::time_point{
      std::chrono::duration_cast<system_clock::duration>(clock.booted + time)};
}

struct Person {
  int pid;
  std::string host;
  std::string platform;
};

Person read_about(std::string_view text) {
  const json from = json::parse(text);
  return {from.at("pid").get<int>(), from.at("host").get<std::string>(),
          from.at("platform").get<std::string>()};
}

}  // namespace

ClockReading ClockReading::now() {
  const auto since_boot = since_boot_in_us();
  const auto wall = wall_clock();
  return {std::chrono::floor<milliseconds>(since_boot), wall, wall - since_boot};
}

char kind_letter(LockKind kind, int permits) {
  if (kind == LockKind::exclusive) return 'x';
  return permits > 0 ? 'p' : 's';
}

StoredGrant read_grant(const Statement& row) {
  int column = 0;
  const auto text = [&] { return std::string(row.text(column++)); };
  const auto time = [&] { return milliseconds{row.integer(column++)}; };
  StoredGrant grant;
  grant.owner = text();
  grant.confirmed = text() == "held";
  grant.kind = row.text(column++).front();
  grant.client = text();
  grant.runner = text();
  grant.incarnation = text();
  grant.about = text();
  grant.metadata = text();
  grant.ttl = time();
  grant.every = time();
  grant.granted = time();
  grant.ends = time();
  grant.gone = time();
  grant.renewals = static_cast<std::uint64_t>(row.integer(column++));
  grant.token = {static_cast<std::uint64_t>(row.integer(column++))};
  return grant;
}

LockWaiter read_waiter(const Statement& row, const ClockReading& clock) {
  const Person person = read_about(row.text(1));
  return {.runner = std::string(row.text(0)),
          .pid = person.pid,
          .host = person.host,
          .kind = row.text(2) == "x" ? LockKind::exclusive : LockKind::shared,
          .priority = static_cast<int>(row.integer(3)),
          .since = to_wall(milliseconds{row.integer(4)}, clock)};
}

LockRecord StoredGrant::to_record(std::string_view name, const ClockReading& clock) const {
  const milliseconds now = clock.since_boot;
  LockRecord record;
  record.name = name;
  record.kind = exclusive() ? LockKind::exclusive : LockKind::shared;
  record.state = ends > now ? LockState::held : LockState::stale;
  record.runner = runner;
  const Person person = read_about(about);
  record.pid = person.pid;
  record.host = person.host;
  record.platform = person.platform;
  if (!metadata.empty()) record.metadata = json::parse(metadata);
  record.token = token;
  record.renewals = renewals;
  record.ttl = ttl;
  record.age = std::max(milliseconds{0}, now - granted);
  record.heartbeat_age = std::max(milliseconds{0}, now - last_heartbeat());
  record.remaining = std::max(milliseconds{0}, ends - now);
  record.acquired_at = to_wall(now - record.age, clock);
  record.heartbeat_at = to_wall(now - record.heartbeat_age, clock);
  return record;
}

void write_grant(Transaction& transaction, const AcquireRequest& request,
                 const ClientIdentity& identity, const ClockReading& clock, FencingToken token) {
  const char kind = kind_letter(request.kind, request.permits);
  transaction.execute(lock_sql::hold, request.name, request.owner, identity.client, identity.runner,
                      identity.incarnation, identity.about, request.metadata, request.ttl,
                      request.heartbeat_every, identity.linger, clock.since_boot, token.value,
                      std::string_view(&kind, 1), request.permits);
  keep_token(transaction, request.name, token);
}

void keep_token(Transaction& transaction, std::string_view name, FencingToken token) {
  // Most names are used again and again, and an UPDATE is faster than INSERT … ON CONFLICT.
  if (transaction.execute(lock_sql::keep_token, name, token.value) == 0) {
    transaction.execute(lock_sql::first_token, name, token.value);
  }
}

}  // namespace leasehold::inline v0::sqlite
