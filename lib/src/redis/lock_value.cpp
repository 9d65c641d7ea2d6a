#include "redis/lock_value.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

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

/// A number of a record as a `To`, or the nearest that there is: anybody may have written it, and
/// json::get() converts without a check.
template <class To>
To number(const json& from) {
  constexpr To least = std::numeric_limits<To>::min();
  constexpr To most = std::numeric_limits<To>::max();
  const auto nearest = [](auto value) {
    return std::cmp_less(value, least)     ? least
           : std::cmp_greater(value, most) ? most
                                           : static_cast<To>(value);
  };
  if (from.is_number_unsigned()) return nearest(from.get<std::uint64_t>());
  if (from.is_number_integer()) return nearest(from.get<std::int64_t>());
  return from.get<double>() < 0 ? least : most;  // no record of ours has a fraction
}

milliseconds duration(const json& from) {
  return bounded(milliseconds{number<std::int64_t>(from)});
}

void read_json(const json& from, StoredLock& lock) {
  LockRecord& record = lock.record;
  record.runner = from.at("runner").get<std::string>();
  record.pid = number<int>(from.at("pid"));
  record.host = from.at("host").get<std::string>();
  record.platform = from.at("platform").get<std::string>();
  record.renewals = number<std::uint64_t>(from.at("renewals"));
  record.ttl = duration(from.at("ttl"));
  record.age = duration(from.at("held"));  // until the last heartbeat
  lock.linger = duration(from.at("linger"));
  record.metadata = from.value("metadata", std::map<std::string, std::string>{});
  if (const auto token = from.find("token"); token != from.end()) {
    record.token = {number<std::uint64_t>(*token)};
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

// In ms since 1970, more than 200 years from now. A clock in ns ends shortly afterwards.
constexpr milliseconds latest_time{8'000'000'000'000};

/// Without what a holder left behind that expired before an offer: see lua/include/line.lua.
std::string_view first_line(std::string_view text) { return text.substr(0, text.find('\n')); }

}  // namespace

milliseconds bounded(milliseconds time) {
  constexpr milliseconds longest = std::chrono::hours{24 * 365 * 10};
  return std::clamp(time, -longest, longest);
}

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
      record.remaining = record.ttl = std::max(milliseconds{0}, bounded(view.pttl));
      record.acquired_at = record.heartbeat_at = view.now;
      return lock;
    }
  }
  set_times(record, bounded(view.pttl) - lock.linger, view.now);
  if (view.pttl >= milliseconds{0} && view.pttl <= lock.linger) record.state = LockState::stale;
  return lock;
}

LockRecord read_shared_holder(std::string_view name, std::string_view value, milliseconds end,
                              const ServerView& view) {
  StoredLock lock;
  try {
    read_json(json::parse(first_line(value.substr(std::min<std::size_t>(1, value.size())))), lock);
  } catch (const json::exception&) {
    lock = {};
  }
  if (lock.record.token.value == 0) lock.record.token = view.counter;
  lock.record.name = name;
  lock.record.kind = LockKind::shared;
  const auto now = std::chrono::duration_cast<milliseconds>(view.now.time_since_epoch());
  set_times(lock.record, bounded(std::clamp(end, milliseconds{0}, latest_time) - now), view.now);
  return lock.record;
}

LockWaiter read_waiter(std::string_view text) {
  const auto word = [&text] {
    const std::string_view found = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), found.size() + 1));
    return found;
  };
  const auto whole_number = [&word]<class To>(To value) {
    const std::string_view digits = word();
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
  };
  LockWaiter waiter;
  word();  // client
  waiter.kind = word() == "x" ? LockKind::exclusive : LockKind::shared;
  word();  // limit
  waiter.priority = whole_number(0);
  waiter.since = system_clock::time_point{
      std::clamp(milliseconds{whole_number(std::int64_t{0})}, milliseconds{0}, latest_time)};
  word();  // place
  try {
    const json record = json::parse(text.substr(std::min(text.size(), owner_size + 1)));
    waiter.pid = number<int>(record.at("pid"));
    waiter.host = record.at("host").get<std::string>();
    waiter.runner = record.at("runner").get<std::string>();
  } catch (const json::exception&) {
    // Not written by us: all that we know is that somebody waits.
  }
  return waiter;
}

}  // namespace leasehold::inline v0::redis
