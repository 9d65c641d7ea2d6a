#include "redis/lock_value.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

namespace leasehold::inline v0::redis {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::system_clock;

void append_field(std::string& out, std::string_view name, std::uint64_t value) {
  out += ",\"";
  out += name;
  out += "\":";
  out += std::to_string(value);
}

void append_field(std::string& out, std::string_view name, milliseconds value) {
  append_field(out, name, static_cast<std::uint64_t>(value.count()));
}

void read_json(const json& from, StoredLock& lock) {
  LockRecord& record = lock.record;
  record.runner = from.at("runner").get<std::string>();
  record.pid = from.at("pid").get<int>();
  record.host = from.at("host").get<std::string>();
  record.platform = from.at("platform").get<std::string>();
  record.renewals = from.at("renewals").get<std::uint64_t>();
  record.ttl = milliseconds{from.at("ttl").get<std::int64_t>()};
  record.age = milliseconds{from.at("held").get<std::int64_t>()};  // until the last heartbeat
  lock.linger = milliseconds{from.at("linger").get<std::int64_t>()};
  record.metadata = from.value("metadata", std::map<std::string, std::string>{});
  if (const auto token = from.find("token"); token != from.end()) {
    record.token = {token->get<std::uint64_t>()};
  }
}

/// `remaining` is the time that is left of the grant; negative after its end.
void set_times(LockRecord& record, milliseconds remaining, system_clock::time_point now) {
  record.remaining = std::max(milliseconds{0}, remaining);
  record.heartbeat_age = std::max(milliseconds{0}, record.ttl - remaining);
  record.age += record.heartbeat_age;
  record.acquired_at = now - record.age;
  record.heartbeat_at = now - record.heartbeat_age;
}

const std::string nobody(owner_size, '0');

/// Without what a holder left behind that expired before an offer: see lua/include/line.lua.
std::string_view first_line(std::string_view text) { return text.substr(0, text.find('\n')); }

}  // namespace

LockValueWriter::LockValueWriter(const RunnerId& runner, std::string_view client,
                                 milliseconds linger, milliseconds keep_counter) {
  utsname system{};
  uname(&system);
  const json fields{
      {"runner", runner.str()},   {"incarnation", runner.incarnation()},
      {"client", client},         {"pid", getpid()},
      {"host", system.nodename},  {"platform", std::string(system.sysname) + " " + system.machine},
      {"linger", linger.count()}, {"keep", keep_counter.count()},
  };
  constant_fields_ = fields.dump(-1, ' ', false, json::error_handler_t::replace);
  constant_fields_.pop_back();  // the closing brace
}

std::string LockValueWriter::write(const LockValue& value) const {
  std::string out;
  out.reserve(owner_size + constant_fields_.size() + value.metadata.size() + 128);
  out += value.owner;
  out += '=';
  out += constant_fields_;
  append_field(out, "ttl", value.ttl);
  append_field(out, "every", value.heartbeat_every);
  append_field(out, "renewals", value.renewals);
  append_field(out, "held", value.held);
  if (value.token.value != 0) append_field(out, "token", value.token.value);
  if (!value.metadata.empty()) {
    out += ",\"metadata\":";
    out += value.metadata;
  }
  out += '}';
  return out;
}

StoredLock read_lock_value(std::string_view name, std::string_view value, const ServerView& view) {
  StoredLock lock;
  LockRecord& record = lock.record;
  record.name = name;
  record.token = view.counter;
  if (value.starts_with(nobody)) {
    record.kind = LockKind::shared;
    return lock;
  }
  if (value.size() > owner_size) {
    lock.owner = value.substr(0, owner_size);
    lock.confirmed = value[owner_size] == '=';
    try {
      read_json(json::parse(first_line(value.substr(owner_size + 1))), lock);
    } catch (const json::exception&) {
      // Not written by us: all that we know is that somebody has it.
      lock = {};
      record.name = name;
      record.remaining = record.ttl = std::max(milliseconds{0}, view.pttl);
      record.acquired_at = record.heartbeat_at = view.now;
      return lock;
    }
  }
  set_times(record, view.pttl - lock.linger, view.now);
  if (view.pttl >= milliseconds{0} && view.pttl <= lock.linger) record.state = LockState::stale;
  return lock;
}

LockRecord read_shared_holder(std::string_view name, std::string_view value, milliseconds end,
                              const ServerView& view) {
  StoredLock lock;
  lock.record.name = name;
  lock.record.kind = LockKind::shared;
  lock.record.token = view.counter;
  read_json(json::parse(first_line(value.substr(1))), lock);
  const auto now = std::chrono::duration_cast<milliseconds>(view.now.time_since_epoch());
  set_times(lock.record, end - now, view.now);
  return lock.record;
}

LockWaiter read_waiter(std::string_view text) {
  const auto word = [&text] {
    const auto end = text.find(' ');
    std::string found(text.substr(0, end));
    text.remove_prefix(std::min(text.size(), end + 1));
    return found;
  };
  LockWaiter waiter;
  word();  // client
  waiter.kind = word() == "x" ? LockKind::exclusive : LockKind::shared;
  word();  // limit
  waiter.priority = std::stoi(word());
  waiter.since = system_clock::time_point{milliseconds{std::stoll(word())}};
  word();  // place
  const json record = json::parse(text.substr(owner_size + 1));
  waiter.runner = record.at("runner").get<std::string>();
  waiter.pid = record.at("pid").get<int>();
  waiter.host = record.at("host").get<std::string>();
  return waiter;
}

}  // namespace leasehold::inline v0::redis
