#include "redis/redis_lock_store.hpp"

#include <algorithm>
#include <deque>

#include "locks/line_rules.hpp"
#include "lua_scripts.hpp"
#include "redis/lock_keys.hpp"
#include "redis/lock_replies.hpp"
#include "redis/redis_errors.hpp"
#include "redis/script.hpp"
#include "support/random.hpp"
#include "support/thread_safety.hpp"

namespace leasehold::inline v0::redis {
namespace {

using std::chrono::milliseconds;
using Words = std::initializer_list<std::string_view>;

// Renewals are cut into pieces of this many, so that Redis never works for more than a few
// milliseconds before it serves somebody else.
constexpr std::size_t most_renewals_at_once = 1'000;
constexpr std::size_t most_lines_at_once = 200;

/// The number that a script has under this name, in thousandths.
constexpr long script_constant(std::string_view script, std::string_view name) {
  constexpr std::string_view local = "local ";
  constexpr std::string_view assigned = " = ";
  for (auto at = script.find(local); at != script.npos; at = script.find(local, at + 1)) {
    auto rest = script.substr(at + local.size());
    if (!rest.starts_with(name) || !rest.substr(name.size()).starts_with(assigned)) continue;
    long value = 0;
    int decimals = -1;  // before the point
    for (const char c : rest.substr(name.size() + assigned.size())) {
      if (c == '.') decimals = 0;
      if (c != '.' && (c < '0' || c > '9')) break;
      if (c == '.') continue;
      value = value * 10 + (c - '0');
      if (decimals >= 0) ++decimals;
    }
    for (decimals = std::max(decimals, 0); decimals < 3; ++decimals) value *= 10;
    return value;
  }
  return -1;
}

/// Whether a script publishes messages of this type.
constexpr bool publishes(std::string_view script, LockMessage::Type type) {
  const std::string_view word = message_word(type);
  for (auto at = script.find(word); at != script.npos; at = script.find(word, at + 1)) {
    const char next = script[at + word.size()];
    if (at > 0 && script[at - 1] == '\'' && (next == '\'' || next == ' ')) return true;
  }
  return false;
}

// The scripts and the embedded store run their lines by the same numbers.
constexpr std::string_view line_script = lua::watch_line.text;
static_assert(script_constant(line_script, "time_to_show") ==
              line_rules::time_to_show.count() * 1'000);
static_assert(static_cast<double>(script_constant(line_script, "overtake")) / 1'000 ==
              line_rules::overtake);

// They send the same messages, too.
static_assert(publishes(line_script, LockMessage::Type::granted));
static_assert(publishes(line_script, LockMessage::Type::crowded));
static_assert(publishes(lua::contend.text, LockMessage::Type::taken));
static_assert(publishes(lua::contend.text, LockMessage::Type::awaited));
static_assert(publishes(lua::force_release.text, LockMessage::Type::vanished));

/// Nobody holds the lock. All that is left is an offer that was not confirmed in time, or the
/// marker of a shared lock whose holders are gone.
bool is_free(const StoredLock& lock) {
  return lock.record.holder_count == 0 ||
         (!lock.confirmed && lock.record.state == LockState::stale);
}

bool is_wrong_type(const RedisReply& reply) {
  return reply.type == RedisReply::Type::error &&
         explain(reply.text, {}).reason() == ServerRefused::Reason::wrong_type;
}

constexpr std::string_view late = "late";
constexpr std::string_view connected_at{RedisLink::connected_at.data(),
                                        RedisLink::connected_at.size()};

LineWatch::Found found_word(std::string_view word) {
  if (word == "waiting") return LineWatch::Found::waiting;
  return word == "offered" ? LineWatch::Found::offered : LineWatch::Found::missing;
}

bool is_token(const RedisReply& reply) { return reply.type == RedisReply::Type::integer; }

bool may_be_granted(const RedisReply& reply) {
  return is_token(reply) || reply.type == RedisReply::Type::no_reply;
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
      replicas_(options.replicas),
      writer_(options.runner, client_, options.linger, options.keep_counters) {}

std::string RedisLockStore::value_for(const AcquireRequest& request) const {
  return writer_.write({.owner = request.owner,
                        .metadata = request.metadata,
                        .ttl = request.ttl,
                        .heartbeat_every = request.heartbeat_every});
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

/// The script that takes a free lock, with the texts that it refers to.
struct RedisLockStore::FreeLock {
  FreeLock(const RedisLockStore& store, const AcquireRequest& request)
      : value(store.value_for(request)),
        lock(LockKeys::lock_key(request.name)),
        fence(lock + ":fence"),
        px((request.ttl + store.linger_).count()),
        script(lua::acquire, {lock, fence}, {value, px, connected_at}) {}
  FreeLock(const FreeLock&) = delete;
  FreeLock& operator=(const FreeLock&) = delete;

  const std::string value;
  const std::string lock;
  const std::string fence;
  const Digits px;
  const ScriptCall script;
};

AcquireOutcome RedisLockStore::acquire(const AcquireRequest& request) {
  const bool joins = request.join != Join::no;
  if (request.attempt == Attempt::first) {
    if (request.kind == LockKind::exclusive) {
      // Most locks are free: the lean script is tried first.
      const FreeLock free{*this, request};
      const RedisReply reply = run_script(*link_, free.script, {.replicas = replicas_});
      if (is_token(reply)) {
        check_replicated(reply);
        return Granted{.token = to_token(reply)};
      }
    } else {
      auto outcome = contend(request, Attempt::first, Join::no);
      if (!joins || std::holds_alternative<Granted>(outcome)) return outcome;
    }
  }
  if (joins && request.before_joining) request.before_joining();
  return contend(request, Attempt::later, request.join);
}

std::vector<std::optional<FencingToken>> RedisLockStore::acquire_free(
    std::span<const AcquireRequest> requests) {
  std::deque<FreeLock> locks;
  std::vector<ScriptCall> calls;
  calls.reserve(requests.size());
  for (const AcquireRequest& request : requests) {
    calls.push_back(locks.emplace_back(*this, request).script);
  }
  auto replies = run_scripts(*link_, calls, {.replicas = replicas_});
  const bool some_granted = std::any_of(replies.begin(), replies.end(), may_be_granted);
  std::vector<std::optional<FencingToken>> tokens;
  for (RedisReply& answer : replies) {
    if (some_granted && is_failure(answer)) {
      throw OutcomeUnknown(why_failed(answer, where()));  // the others have to be taken back
    }
    const RedisReply reply = checked(std::move(answer), where());
    if (is_token(reply)) check_replicated(reply);
    tokens.push_back(is_token(reply) ? std::optional(to_token(reply)) : std::nullopt);
  }
  return tokens;
}

AcquireOutcome RedisLockStore::contend(const AcquireRequest& request, Attempt attempt, Join join) {
  const LockKeys keys{request.name};
  const std::string value = value_for(request);
  const bool adopts = request.adoption == Adoption::allowed && runner_.persistent();
  const Digits ttl{request.ttl.count()};
  const Digits permits{request.permits};
  const Digits silence{request.steal_after.count()};
  const Digits priority{request.priority};
  const Digits place{static_cast<long long>(request.place)};
  const Digits until{request.mode == AcquireMode::always ? give_up_at(keys.lock()) : 0};
  const RedisReply reply = run_script(
      *link_,
      {lua::contend,
       keys.all(),
       {value, ttl, kind_word(request.kind, request.permits), permits, mode_word(request.mode),
        silence, adopts ? std::string_view(runner_.str()) : std::string_view{},
        runner_.incarnation(), join_word(join), priority, place,
        attempt == Attempt::first ? "yes" : "no", until, connected_at}},
      {.replicas = replicas_});
  if (part(reply, 0).text == late) throw_late();
  evicted_ += static_cast<std::uint64_t>(part(reply, 7).integer);

  const FencingToken token = to_token(part(reply, 1));
  const auto kind = grant_kind(part(reply, 0).text);
  std::optional<LockRecord> other;
  if (part(reply, 2).type == RedisReply::Type::string) {
    const ServerView view{.pttl = milliseconds{part(reply, 3).integer},
                          .counter = kind ? FencingToken{} : token,
                          .now = to_time(part(reply, 4), part(reply, 5))};
    other = read_lock_value(request.name, part(reply, 2).text, view).record;
  }
  if (kind || join != Join::no) awaited_.add(request.owner);
  if (kind) {
    check_replicated(reply);
    return Granted{*kind, token, std::move(other)};
  }
  Conflict conflict{.place = static_cast<std::uint64_t>(part(reply, 6).integer),
                    .alone = part(reply, 8).integer == 1};
  if (other) conflict.holder = std::move(*other);
  conflict.holder.name = request.name;
  return conflict;
}

/// When a request that is sent now has no effect any more, in ms of the server's time. What takes a
/// lock away from a living holder must not do so after its caller was told that it failed.
long long RedisLockStore::give_up_at(std::string_view key) const {
  const std::array<std::string_view, 1> words{"TIME"};
  const RedisCommand command{words, key};  // the clock of the server that will be asked
  const RedisReply time = checked(std::move(link_->pipeline({&command, 1}).front()), where());
  const auto now = to_time(part(time, 0), part(time, 1)).time_since_epoch();
  return (std::chrono::duration_cast<milliseconds>(now) + timeout_).count();
}

void RedisLockStore::throw_late() const {
  throw Unavailable(where() + ": the request reached the server too late and was not executed");
}

/// A grant counts once as many replicas have it as the client wants.
void RedisLockStore::check_replicated(const RedisReply& grant) const {
  if (replicas_.needed == RedisReplicas::Needed::none || grant.replicated) return;
  throw not_replicated(grant, where());
}

void RedisLockStore::renew(std::span<LockRenewal> renewals, milliseconds timeout) {
  RedisReplicas replicas = replicas_;
  replicas.timeout = std::min(replicas.timeout, timeout);
  struct Texts {
    Texts(const LockRenewal& renewal, std::string text, milliseconds its_linger)
        : value(std::move(text)), ttl(renewal.ttl.count()), linger(its_linger.count()) {
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
    Digits linger;
  };
  while (!renewals.empty()) {
    const auto piece = renewals.first(std::min(renewals.size(), most_renewals_at_once));
    renewals = renewals.subspan(piece.size());

    std::deque<Texts> texts;
    std::vector<ScriptCall> calls;
    calls.reserve(piece.size());
    for (const LockRenewal& renewal : piece) {
      const Texts& text = texts.emplace_back(renewal, value_for(renewal), linger_);
      if (text.keys) {
        calls.emplace_back(lua::renew_shared, text.keys->all(), Words{text.value, text.ttl});
      } else {
        calls.emplace_back(lua::renew, Words{text.lock}, Words{text.value, text.ttl, text.linger});
      }
    }
    auto replies = run_scripts(*renewal_link_, calls, {.timeout = timeout, .replicas = replicas});
    for (std::size_t i = 0; i < piece.size(); ++i) {
      LockRenewal& renewal = piece[i];
      if (is_failure(replies[i])) {
        renewal.result = RenewalResult::failed;
        renewal.error = why_failed(replies[i], where());
        renewal.unanswered = replies[i].type == RedisReply::Type::no_reply;
      } else {
        renewal.result = to_renewal_result(replies[i]);
      }
      if (renewal.result != RenewalResult::renewed) continue;
      try {
        check_replicated(replies[i]);
      } catch (const ServerRefused& error) {
        renewal.result = RenewalResult::failed;
        renewal.error = error.what();
        renewal.unanswered = true;  // the primary has prolonged it
      }
    }
  }
}

std::string RedisLockStore::server_of(std::string_view name) {
  return renewal_link_->server_of(LockKeys::lock_key(name));
}

std::vector<Standing> RedisLockStore::verify(std::span<const GrantId> grants,
                                             milliseconds timeout) {
  std::vector<Standing> standings;
  standings.reserve(grants.size());
  while (!grants.empty()) {
    const auto piece = grants.first(std::min(grants.size(), most_renewals_at_once));
    grants = grants.subspan(piece.size());

    std::deque<LockKeys> keys;
    std::vector<ScriptCall> calls;
    calls.reserve(piece.size());
    for (const GrantId& grant : piece) {
      const LockKeys& its = keys.emplace_back(grant.name);
      calls.emplace_back(lua::verify, Words{its.lock(), its.holders(), its.book()},
                         Words{grant.owner});
    }
    auto replies = run_scripts(*renewal_link_, calls, {.timeout = timeout});
    const bool some = !std::all_of(replies.begin(), replies.end(), is_failure);
    for (RedisReply& reply : replies) {
      // What one node of a cluster does not know says nothing about the locks of the others.
      const bool unknown = some && is_failure(reply);
      standings.push_back(unknown ? Standing::held
                                  : to_standing(checked(std::move(reply), where())));
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
  return to_release_result(run_script(*link_, {lua::hand_over, keys.all(), {owner}}));
}

std::vector<ReleaseResult> RedisLockStore::release_all(std::span<const GrantId> grants) {
  std::deque<LockKeys> keys;
  std::vector<ScriptCall> calls;
  calls.reserve(grants.size());
  for (const GrantId& grant : grants) {
    awaited_.take(grant.owner);
    calls.emplace_back(lua::hand_over, keys.emplace_back(grant.name).all(), Words{grant.owner});
  }
  std::vector<ReleaseResult> results;
  results.reserve(grants.size());
  for (RedisReply& reply : run_scripts(*link_, calls)) {
    results.push_back(to_release_result(checked(std::move(reply), where())));
  }
  return results;
}

void RedisLockStore::decline(const GrantId& offer) {
  const LockKeys keys{offer.name};
  const RedisReply reply = run_script(*link_, {lua::decline, keys.all(), {offer.owner}});
  evicted_ += static_cast<std::uint64_t>(reply.integer);
}

ReleaseResult RedisLockStore::to_release_result(const RedisReply& reply) {
  long long answer = reply.integer;
  if (reply.type == RedisReply::Type::array) {
    answer = part(reply, 0).integer;
    evicted_ += static_cast<std::uint64_t>(part(reply, 1).integer);
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
  const RedisReply reply =
      run_script(*link_, {lua::downgrade, keys.all(), {value, ttl}}, {.replicas = replicas_});
  const RenewalResult result = to_renewal_result(reply);
  if (result == RenewalResult::renewed) check_replicated(reply);
  return result;
}

void RedisLockStore::resize(std::string_view name, int permits) {
  const LockKeys keys{name};
  const Digits limit{permits};
  run_script(*link_, {lua::resize, keys.all(), {limit}});
}

void RedisLockStore::watch_lines(std::span<LineWatch> lines) {
  while (!lines.empty()) {
    const auto piece = lines.first(std::min(lines.size(), most_lines_at_once));
    lines = lines.subspan(piece.size());

    std::deque<LockKeys> keys;
    std::vector<ScriptCall> calls;
    calls.reserve(piece.size());
    for (const LineWatch& line : piece) {
      calls.emplace_back(lua::watch_line, keys.emplace_back(line.name).all(),
                         Words{line.owner, client_});
    }
    const auto replies = run_scripts(*link_, calls);
    for (std::size_t i = 0; i < piece.size(); ++i) {
      if (is_failure(replies[i])) {
        piece[i].error = why_failed(replies[i], where());
        continue;
      }
      piece[i].found = found_word(part(replies[i], 0).text);
      piece[i].look_in = to_duration(part(replies[i], 1));
      evicted_ += static_cast<std::uint64_t>(part(replies[i], 2).integer);
      piece[i].alone = part(replies[i], 3).integer == 1;
    }
  }
}

namespace {

class Listener final : public LockListener {
 public:
  void keep(std::unique_ptr<RedisSubscription> subscription) {
    subscription_ = std::move(subscription);
  }

  void note_subscribed() {
    const ThreadLock lock(mutex_);
    subscribed_ = true;
    changed_.notify_all();
  }

  bool wait_until_heard(Deadline deadline, const std::stop_token& stop) override {
    ThreadLock lock(mutex_);
    return changed_.wait_until(lock, stop, std::min(deadline, give_up_at_),
                               [this]() LEASEHOLD_REQUIRES(mutex_) { return subscribed_; });
  }

 private:
  // A user may be forbidden to subscribe. Then waiting for it must not cost more than this, once.
  const Deadline give_up_at_ = std::chrono::steady_clock::now() + milliseconds{1'000};

  ThreadMutex mutex_;
  StoppableCondition changed_;
  bool subscribed_ LEASEHOLD_GUARDED_BY(mutex_) = false;

  std::unique_ptr<RedisSubscription> subscription_;  // destroyed first: it calls note_subscribed()
};

}  // namespace

std::unique_ptr<LockListener> RedisLockStore::listen(
    std::function<void(const LockMessage&)> handler) {
  auto listener = std::make_unique<Listener>();
  auto subscription = link_->subscribe(
      "lh:client:" + client_,
      [this, handler](std::string_view text) {
        const auto message = parse_lock_message(text);
        if (!message) return;
        if (message->type == LockMessage::Type::awaited) awaited_.add(message->owner);
        handler(*message);
      },
      [handler, heard = listener.get()] {
        heard->note_subscribed();
        handler({LockMessage::Type::reset});
      });
  if (!subscription) return nullptr;
  listener->keep(std::move(subscription));
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
  const Digits until{give_up_at(keys.lock())};
  const RedisReply reply = run_script(*link_, {lua::force_release, keys.all(), {until}});
  if (reply.type == RedisReply::Type::nil) return std::nullopt;
  if (reply.text == late) throw_late();
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
    const LockKeys keys{lock.record.name};
    if (run_script(*link_, {lua::remove_stale, keys.all(), {lock.owner}}).integer == 1) {
      removed.push_back(lock.record);
    }
    return true;
  });
  return removed;
}

void RedisLockStore::visit_stored(std::string_view pattern,
                                  const std::function<bool(const StoredLock&)>& visitor) {
  const auto primaries = link_->primaries();
  if (primaries.empty()) visit_stored_in(*link_, pattern, visitor);
  for (const auto& primary : primaries) {
    if (!visit_stored_in(*primary, pattern, visitor)) return;
  }
}

/// Visits the locks whose keys are on this server. False if the visitor has seen enough.
bool RedisLockStore::visit_stored_in(RedisLink& server, std::string_view pattern,
                                     const std::function<bool(const StoredLock&)>& visitor) {
  // The pattern ends with the closing brace, so that it does not match the other keys of a lock.
  const std::string match = LockKeys::lock_key(pattern);
  std::string cursor = "0";
  do {
    const std::array<std::string_view, 6> scan{"SCAN", cursor, "MATCH", match, "COUNT", "1000"};
    const RedisCommand command{scan};
    const RedisReply page =
        checked(std::move(server.pipeline({&command, 1}).front()), server.where());
    const auto& found = part(page, 1).elements;

    std::deque<LockKeys> keys;
    std::vector<ScriptCall> calls;
    calls.reserve(found.size());
    for (const RedisReply& key : found) {
      calls.emplace_back(lua::status, keys.emplace_back(LockKeys::name_of(key.text)).all(),
                         Words{"0"});
    }
    auto replies = run_scripts(*link_, calls);  // not on `server`: its keys may move
    for (std::size_t i = 0; i < replies.size(); ++i) {
      // Not a string, and so not a lock: the list goes on without it.
      if (is_wrong_type(replies[i])) continue;
      const RedisReply reply = checked(std::move(replies[i]), where());
      if (reply.type != RedisReply::Type::array) continue;  // gone since the SCAN
      const StoredLock lock = to_stored_lock(LockKeys::name_of(found[i].text), reply);
      if (!is_free(lock) && !visitor(lock)) return false;
    }
    // Otherwise a server that always answers the same would keep us for ever.
    if (part(page, 0).text == cursor && cursor != "0") {
      throw OutcomeUnknown(where() + ": SCAN does not get on from cursor " + cursor);
    }
    cursor = part(page, 0).text;
  } while (cursor != "0");
  return true;
}

}  // namespace leasehold::inline v0::redis
