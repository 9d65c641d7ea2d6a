#include "redis/redis_lock_store.hpp"

#include <algorithm>
#include <charconv>
#include <deque>

#include "lua_scripts.hpp"
#include "redis/lock_keys.hpp"
#include "redis/redis_errors.hpp"
#include "redis/script.hpp"
#include "support/random.hpp"

namespace leasehold::inline v0 {
namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

// Renewals are cut into pieces of this many, so that Redis never works for more than a few
// milliseconds before it serves somebody else.
constexpr std::size_t most_renewals_at_once = 1'000;

std::string_view mode_word(ClaimMode mode) {
  switch (mode) {
    case ClaimMode::if_free:
      return "free";
    case ClaimMode::if_silent:
      return "silent";
    case ClaimMode::always:
      break;
  }
  return "always";
}

std::string_view kind_word(LockKind kind, int permits) {
  if (kind == LockKind::exclusive) return "x";
  return permits > 0 ? "p" : "s";
}

std::string_view join_word(Join join) {
  switch (join) {
    case Join::no:
      return "no";
    case Join::tail:
      return "tail";
    case Join::head:
      break;
  }
  return "head";
}

std::optional<GrantKind> grant_kind(std::string_view word) {
  if (word == "free") return GrantKind::fresh;
  if (word == "handed") return GrantKind::handed;
  if (word == "mine") return GrantKind::repeated;
  if (word == "adopted") return GrantKind::adopted;
  if (word == "stale") return GrantKind::stale;
  if (word == "stolen") return GrantKind::stolen;
  if (word == "forced") return GrantKind::forced;
  return std::nullopt;  // busy
}

FencingToken to_token(const RedisReply& reply) {
  if (reply.type == RedisReply::Type::integer) {
    return {static_cast<std::uint64_t>(reply.integer)};
  }
  FencingToken token;
  std::from_chars(reply.text.data(), reply.text.data() + reply.text.size(), token.value);
  return token;
}

system_clock::time_point to_time(const RedisReply& seconds, const RedisReply& microseconds) {
  const auto number = [](const RedisReply& part) {
    return static_cast<std::int64_t>(to_token(part).value);
  };
  return system_clock::time_point{std::chrono::duration_cast<system_clock::duration>(
      std::chrono::seconds{number(seconds)} + std::chrono::microseconds{number(microseconds)})};
}

ServerView to_view(const RedisReply& pttl, const RedisReply& counter, const RedisReply& seconds,
                   const RedisReply& microseconds) {
  return {milliseconds{pttl.integer}, to_token(counter), to_time(seconds, microseconds)};
}

/// The reply of status and force_release.
StoredLock to_stored_lock(std::string_view name, const RedisReply& reply) {
  const auto& parts = reply.elements;
  const ServerView view = to_view(parts.at(1), parts.at(2), parts.at(3), parts.at(4));
  StoredLock lock = read_lock_value(name, parts.at(0).text, view);
  if (lock.record.kind == LockKind::shared) {
    lock.record.holder_count = static_cast<std::uint64_t>(parts.at(5).integer);
  }
  lock.record.waiter_count = static_cast<std::uint64_t>(parts.at(6).integer);
  return lock;
}

/// The same, with the shared holders and the line.
StoredLock to_stored_lock_in_detail(std::string_view name, const RedisReply& reply) {
  StoredLock lock = to_stored_lock(name, reply);
  const auto& parts = reply.elements;
  const ServerView view = to_view(parts.at(1), parts.at(2), parts.at(3), parts.at(4));
  const auto& shared = parts.at(7).elements;
  for (std::size_t i = 0; i + 2 < shared.size(); i += 3) {
    const milliseconds lease_end{static_cast<std::int64_t>(to_token(shared[i + 2]).value)};
    lock.record.holders.push_back(read_shared_holder(name, shared[i + 1].text, lease_end, view));
  }
  for (const RedisReply& waiter : parts.at(8).elements) {
    lock.record.waiters.push_back(read_waiter(waiter.text));
  }
  return lock;
}

/// "<type> <owner>"; see tell in lua/include/line.lua.
std::optional<LockMessage> read_message(std::string_view text) {
  using Type = LockMessage::Type;
  constexpr std::array<std::pair<std::string_view, Type>, 3> types{
      {{"granted ", Type::granted}, {"taken ", Type::taken}, {"vanished ", Type::vanished}}};
  for (const auto& [word, type] : types) {
    if (text.starts_with(word)) return LockMessage{type, std::string(text.substr(word.size()))};
  }
  return std::nullopt;
}

RenewalResult to_renewal_result(const RedisReply& reply) {
  return reply.integer == 1   ? RenewalResult::renewed
         : reply.integer == 0 ? RenewalResult::vanished
                              : RenewalResult::taken;
}

/// Nobody holds it: all that is left is a grant that a waiter did not confirm in time, or the
/// marker of a shared lock whose holders are gone.
bool is_free(const StoredLock& lock) {
  return lock.record.holder_count == 0 ||
         (!lock.confirmed && lock.record.state == LockState::stale);
}

}  // namespace

RedisLockStore::RedisLockStore(std::shared_ptr<RedisLink> link,
                               std::shared_ptr<RedisLink> renewal_link, const Options& options)
    : link_(std::move(link)),
      renewal_link_(std::move(renewal_link)),
      runner_(options.runner),
      client_(random_hex(8)),
      linger_(options.linger),
      timeout_(options.timeout),
      writer_(options.runner, client_, options.linger, options.keep_counters) {}

std::string RedisLockStore::value_for(const LockClaim& claim) const {
  return writer_.write({.owner = claim.owner,
                        .metadata = claim.metadata,
                        .ttl = claim.ttl,
                        .heartbeat_every = claim.heartbeat_every});
}

std::string RedisLockStore::value_for(const LockRenewal& renewal) const {
  return writer_.write({.owner = renewal.owner,
                        .metadata = renewal.metadata,
                        .ttl = renewal.ttl,
                        .heartbeat_every = renewal.heartbeat_every,
                        .renewals = renewal.renewals,
                        .held = renewal.held,
                        .token = renewal.token});
}

/// Runs acquire for one claim; the texts live as long as the call needs them.
struct RedisLockStore::TakeFree {
  TakeFree(const RedisLockStore& store, const LockClaim& claim)
      : value(store.value_for(claim)),
        lock(LockKeys::lock_key(claim.name)),
        fence(lock + ":fence"),
        px((claim.ttl + store.linger_).count()),
        call(lua::acquire, {lock, fence}, {value, px}) {}
  TakeFree(const TakeFree&) = delete;
  TakeFree& operator=(const TakeFree&) = delete;

  static std::optional<FencingToken> result(const RedisReply& reply) {
    if (reply.type != RedisReply::Type::integer) return std::nullopt;
    return to_token(reply);
  }

  const std::string value;
  const std::string lock;
  const std::string fence;
  const Digits px;
  const ScriptCall call;
};

std::optional<FencingToken> RedisLockStore::take_free(const LockClaim& claim) {
  const TakeFree take{*this, claim};
  return TakeFree::result(run_script(*link_, take.call));
}

std::vector<std::optional<FencingToken>> RedisLockStore::take_free(
    std::span<const LockClaim> claims) {
  std::deque<TakeFree> takes;
  std::vector<ScriptCall> calls;
  calls.reserve(claims.size());
  for (const LockClaim& claim : claims) calls.push_back(takes.emplace_back(*this, claim).call);
  auto replies = run_scripts(*link_, calls);
  std::vector<std::optional<FencingToken>> tokens;
  for (RedisReply& reply : replies) {
    tokens.push_back(TakeFree::result(checked(std::move(reply), where())));
  }
  return tokens;
}

ClaimOutcome RedisLockStore::claim(const LockClaim& claim) {
  const LockKeys keys{claim.name};
  const std::string value = value_for(claim);
  const bool adopts = claim.adoption == Adoption::allowed && runner_.persistent();
  const Digits ttl{claim.ttl.count()};
  const Digits permits{claim.permits};
  const Digits silence{claim.steal_after.count()};
  const Digits priority{claim.priority};
  const Digits place{static_cast<long long>(claim.place)};
  const RedisReply reply = run_script(
      *link_, {lua::contend,
               keys.all(),
               {value, ttl, kind_word(claim.kind, claim.permits), permits, mode_word(claim.mode),
                silence, adopts ? std::string_view(runner_.str()) : std::string_view{},
                runner_.incarnation(), join_word(claim.join), priority, place,
                claim.permit_count == PermitCount::counts ? "yes" : "no"}});
  const auto& parts = reply.elements;
  evicted_ += static_cast<std::uint64_t>(parts.at(7).integer);

  const FencingToken token = to_token(parts.at(1));
  const auto kind = grant_kind(parts.at(0).text);
  const FencingToken holders_token = kind ? FencingToken{} : token;
  LockRecord other;
  const bool has_other = parts.at(2).type == RedisReply::Type::string;
  if (has_other) {
    const ServerView view{milliseconds{parts.at(3).integer}, holders_token,
                          to_time(parts.at(4), parts.at(5))};
    other = read_lock_value(claim.name, parts.at(2).text, view).record;
  }
  if (kind || claim.join != Join::no) awaited_.add(claim.owner);
  if (!kind) {
    other.name = claim.name;
    return LockConflict{std::move(other), static_cast<std::uint64_t>(parts.at(6).integer)};
  }
  LockGrant grant{.kind = *kind, .token = token};
  if (has_other) grant.previous = std::move(other);
  return grant;
}

void RedisLockStore::renew(std::span<LockRenewal> renewals, milliseconds timeout) {
  struct Texts {
    Texts(const LockRenewal& renewal, std::string value_, milliseconds linger)
        : value(std::move(value_)), ttl(renewal.ttl.count()), px((renewal.ttl + linger).count()) {
      if (renewal.kind == LockKind::exclusive) {
        lock = LockKeys::lock_key(renewal.name);
      } else {
        keys.emplace(renewal.name);
      }
    }
    std::string lock;              // of an exclusive lock
    std::optional<LockKeys> keys;  // of a shared one
    std::string value;
    Digits ttl;
    Digits px;
  };
  while (!renewals.empty()) {
    const auto piece = renewals.first(std::min(renewals.size(), most_renewals_at_once));
    renewals = renewals.subspan(piece.size());

    std::deque<Texts> texts;
    std::vector<ScriptCall> calls;
    calls.reserve(piece.size());
    for (const LockRenewal& renewal : piece) {
      const Texts& text = texts.emplace_back(renewal, value_for(renewal), linger_);
      using Words = std::initializer_list<std::string_view>;
      if (text.keys) {
        calls.emplace_back(lua::renew_shared, text.keys->all(), Words{text.value, text.ttl});
      } else {
        calls.emplace_back(lua::renew, Words{text.lock}, Words{text.value, text.px});
      }
    }
    auto replies = run_scripts(*renewal_link_, calls, timeout);
    for (std::size_t i = 0; i < piece.size(); ++i) {
      LockRenewal& renewal = piece[i];
      if (replies[i].type == RedisReply::Type::error) {
        renewal.result = RenewalResult::failed;
        renewal.error = explain(replies[i].text, where()).what();
      } else {
        renewal.result = to_renewal_result(replies[i]);
      }
    }
  }
}

std::vector<Standing> RedisLockStore::verify(std::span<const LockGrantId> grants,
                                             milliseconds timeout) {
  std::vector<Standing> standings;
  standings.reserve(grants.size());
  while (!grants.empty()) {
    const auto piece = grants.first(std::min(grants.size(), most_renewals_at_once));
    grants = grants.subspan(piece.size());

    std::deque<LockKeys> keys;
    std::vector<ScriptCall> calls;
    calls.reserve(piece.size());
    for (const LockGrantId& grant : piece) {
      using Words = std::initializer_list<std::string_view>;
      const LockKeys& its = keys.emplace_back(grant.name);
      calls.emplace_back(lua::verify, Words{its.lock(), its.holders(), its.book()},
                         Words{grant.owner});
    }
    for (RedisReply& reply : run_scripts(*renewal_link_, calls, timeout)) {
      const auto answer = checked(std::move(reply), where()).integer;
      standings.push_back(answer == 1   ? Standing::held
                          : answer == 0 ? Standing::vanished
                                        : Standing::taken);
    }
  }
  return standings;
}

ReleaseResult RedisLockStore::release(std::string_view name, std::string_view owner) {
  const LockKeys keys{name};
  if (!awaited_.take(owner)) {
    const std::string held = std::string(owner) + '=';
    const auto reply = run_script(*link_, {lua::release, {keys.lock(), keys.line()}, {held}});
    if (reply.type == RedisReply::Type::integer) return ReleaseResult::released;
  }
  return to_release_result(run_script(*link_, {lua::leave, keys.all(), {owner}}));
}

std::vector<ReleaseResult> RedisLockStore::release_all(std::span<const LockGrantId> grants) {
  std::deque<LockKeys> keys;
  std::vector<ScriptCall> calls;
  calls.reserve(grants.size());
  for (const LockGrantId& grant : grants) {
    awaited_.take(grant.owner);
    calls.emplace_back(lua::leave, keys.emplace_back(grant.name).all(),
                       std::initializer_list<std::string_view>{grant.owner});
  }
  std::vector<ReleaseResult> results;
  results.reserve(grants.size());
  for (RedisReply& reply : run_scripts(*link_, calls)) {
    results.push_back(to_release_result(checked(std::move(reply), where())));
  }
  return results;
}

ReleaseResult RedisLockStore::to_release_result(const RedisReply& reply) {
  long long answer = reply.integer;
  if (reply.type == RedisReply::Type::array) {
    answer = reply.elements.at(0).integer;
    evicted_ += static_cast<std::uint64_t>(reply.elements.at(1).integer);
  }
  return answer == 1   ? ReleaseResult::released
         : answer == 0 ? ReleaseResult::vanished
                       : ReleaseResult::taken;
}

RenewalResult RedisLockStore::downgrade(const LockRenewal& renewal) {
  const LockKeys keys{renewal.name};
  const std::string value = value_for(renewal);
  const Digits ttl{renewal.ttl.count()};
  awaited_.add(renewal.owner);
  return to_renewal_result(run_script(*link_, {lua::downgrade, keys.all(), {value, ttl}}));
}

void RedisLockStore::resize(std::string_view name, int permits) {
  const LockKeys keys{name};
  const Digits limit{permits};
  run_script(*link_, {lua::resize, keys.all(), {limit}});
}

void RedisLockStore::watch_lines(std::span<LineWatch> lines) {
  std::deque<LockKeys> keys;
  std::vector<ScriptCall> calls;
  calls.reserve(lines.size());
  for (const LineWatch& line : lines) {
    calls.emplace_back(lua::watch_line, keys.emplace_back(line.name).all(),
                       std::initializer_list<std::string_view>{line.owner});
  }
  auto replies = run_scripts(*link_, calls);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const RedisReply reply = checked(std::move(replies[i]), where());
    lines[i].in_line = reply.elements.at(0).integer == 1;
    lines[i].lease_ends = milliseconds{reply.elements.at(1).integer};
    evicted_ += static_cast<std::uint64_t>(reply.elements.at(2).integer);
  }
}

std::unique_ptr<LockListener> RedisLockStore::listen(
    std::function<void(const LockMessage&)> handler) {
  struct Listener final : LockListener {
    std::unique_ptr<RedisSubscription> subscription;
  };
  auto listener = std::make_unique<Listener>();
  listener->subscription = link_->subscribe(
      "lh:client:" + client_,
      [this, handler](std::string_view message) {
        constexpr std::string_view awaited = "awaited ";
        if (message.starts_with(awaited)) {
          awaited_.add(message.substr(awaited.size()));
        } else if (const auto read = read_message(message)) {
          handler(*read);
        }
      },
      [handler] {
        handler({LockMessage::Type::reset, {}});
      });
  if (!listener->subscription) return nullptr;
  return listener;
}

std::optional<LockRecord> RedisLockStore::status(std::string_view name) {
  const LockKeys keys{name};
  const RedisReply reply = run_script(*link_, {lua::status, keys.all(), {"1"}});
  if (reply.type == RedisReply::Type::nil) return std::nullopt;
  StoredLock lock = to_stored_lock_in_detail(name, reply);
  if (is_free(lock)) return std::nullopt;
  return std::move(lock.record);
}

std::optional<LockRecord> RedisLockStore::force_release(std::string_view name) {
  const LockKeys keys{name};
  const RedisReply reply = run_script(*link_, {lua::force_release, keys.all(), {}});
  if (reply.type == RedisReply::Type::nil) return std::nullopt;
  return to_stored_lock(name, reply).record;
}

void RedisLockStore::visit(std::string_view pattern,
                           const std::function<bool(const LockRecord&)>& visitor) {
  visit_stored(pattern, [&](const StoredLock& lock) { return visitor(lock.record); });
}

std::vector<LockRecord> RedisLockStore::remove_stale(std::string_view pattern) {
  std::vector<LockRecord> removed;
  visit_stored(pattern, [&](const StoredLock& lock) {
    if (lock.record.state != LockState::stale) return true;
    const std::string key = LockKeys::lock_key(lock.record.name);
    const Digits linger{lock.linger.count()};
    if (run_script(*link_, {lua::remove_stale, {key}, {lock.owner, linger}}).integer == 1) {
      removed.push_back(lock.record);
    }
    return true;
  });
  return removed;
}

void RedisLockStore::visit_stored(std::string_view pattern,
                                  const std::function<bool(const StoredLock&)>& visitor) {
  // The closing brace keeps the other keys of a lock out: they go on behind it.
  const std::string match = LockKeys::lock_key(pattern);
  std::string cursor = "0";
  do {
    const std::array<std::string_view, 6> scan{"SCAN", cursor, "MATCH", match, "COUNT", "1000"};
    const RedisCommand command{scan};
    const RedisReply page = checked(std::move(link_->pipeline({&command, 1}).front()), where());
    const auto& found = page.elements.at(1).elements;

    std::deque<LockKeys> keys;
    std::vector<ScriptCall> calls;
    calls.reserve(found.size());
    for (const RedisReply& key : found) {
      calls.emplace_back(lua::status, keys.emplace_back(LockKeys::name_of(key.text)).all(),
                         std::initializer_list<std::string_view>{"0"});
    }
    const auto replies = run_scripts(*link_, calls);
    for (std::size_t i = 0; i < replies.size(); ++i) {
      // Gone meanwhile, or not a string and so not a lock: not worth failing the whole list for.
      if (replies[i].type != RedisReply::Type::array) continue;
      const StoredLock lock = to_stored_lock(LockKeys::name_of(found[i].text), replies[i]);
      if (!is_free(lock) && !visitor(lock)) return;
    }
    cursor = page.elements.at(0).text;
  } while (cursor != "0");
}

}  // namespace leasehold::inline v0
