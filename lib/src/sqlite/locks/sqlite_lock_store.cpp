#include "sqlite/locks/sqlite_lock_store.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "leasehold/errors.hpp"
#include "sqlite/database/machine_clock.hpp"
#include "sqlite/locks/process_identity.hpp"
#include "sqlite_lock_migrations.hpp"
#include "sqlite_lock_queries.hpp"
#include "support/random.hpp"

namespace leasehold::inline v0::sqlite {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using Holder = LockLine::Holder;

// Renewals are cut into pieces of this many, so that no transaction keeps others waiting for long.
constexpr std::size_t most_renewals_at_once = 1'000;

constexpr milliseconds messages_are_kept{10'000};  // longer than a watcher may be absent

constexpr milliseconds sweep_every{1'000};
constexpr int names_a_sweep = 1'000;
constexpr int names_a_page = 200;

Claimant make_claimant(const SqliteLockStore::Options& options) {
  utsname system{};
  uname(&system);
  const json about{{"pid", getpid()},
                   {"host", system.nodename},
                   {"platform", std::string(system.sysname) + " " + system.machine}};
  return {.client = random_hex(8) + '@' + process_identity(),
          .runner = options.runner.str(),
          .incarnation = std::string(options.runner.incarnation()),
          .persistent = options.runner.persistent(),
          .about = about.dump(-1, ' ', false, json::error_handler_t::replace),
          .linger = options.linger};
}

OpenOptions open_options(const SqliteLockStore::Options& options) {
  return {.timeout = options.timeout,
          .schema = {.kind = "locks",
                     .migrations = lock_migrations::all,
                     .on_new_boot = &lock_sql::new_boot},
          .durability = Durability::process_crash,
          .boot_id = options.boot_id};
}

/// A pattern of ours as SQLite's GLOB wants it: that knows no backslash.
std::string to_glob(std::string_view pattern) {
  std::string glob;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size() && !in_class) {
      const char literal = pattern[++i];
      const bool means_something = literal == '*' || literal == '?' || literal == '[';
      glob += means_something ? std::string{'[', literal, ']'} : std::string{literal};
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    glob += c;
  }
  return glob;
}

}  // namespace

SqliteLockStore::SqliteLockStore(const SqliteUri& uri, const Options& options)
    : claimant_(make_claimant(options)),
      keep_counters_(options.keep_counters),
      timeout_(options.timeout),
      database_(open_database(uri, open_options(options))),
      sweep_at_((since_boot() + sweep_every).count()) {}

/// Runs `fn(Transaction&, LockEffects&)` in a transaction, and tells those whom it concerns.
template <class Fn>
auto SqliteLockStore::change(Fn&& fn) {
  return change(timeout_, fn);
}

template <class Fn>
auto SqliteLockStore::change(milliseconds timeout, Fn&& fn) {
  activity_->keep_awake();
  LockEffects effects;
  auto result = database_->write(timeout, [&](Transaction& transaction) {
    effects = {};
    auto answer = fn(transaction, effects);
    post(transaction, effects);
    return answer;
  });
  deliver(effects);
  return result;
}

void SqliteLockStore::post(Transaction& transaction, const LockEffects& effects) {
  if (database_->uri().kind != SqliteUri::Kind::file) return;
  const milliseconds now = since_boot();
  for (const auto& letter : effects.letters) {
    if (database_->hub().is_heard(letter.client)) continue;
    transaction.execute(lock_sql::forget_messages, now - messages_are_kept);
    transaction.execute(lock_sql::post, now, letter.client, letter.message);
  }
}

void SqliteLockStore::deliver(const LockEffects& effects) {
  evicted_ += effects.evicted;
  for (const auto& letter : effects.letters) {
    database_->hub().tell(letter.client, letter.message);
  }
}

/// Without RETURNING: for that SQLite would set up a table, which costs more than all the rest.
std::optional<FencingToken> SqliteLockStore::take_free(Transaction& transaction,
                                                       const LockClaim& claim) {
  const Moment moment = Moment::now();
  FencingToken token{static_cast<std::uint64_t>(moment.wall.count())};
  {
    auto row = transaction.prepare(lock_sql::free_token, claim.name);
    if (!row.step()) return std::nullopt;
    token.value = std::max(token.value, static_cast<std::uint64_t>(row.integer(0)) + 1);
  }
  write_grant(transaction, claim, claimant_, moment, token);
  return token;
}

std::optional<FencingToken> SqliteLockStore::take_free(const LockClaim& claim) {
  activity_->keep_awake();
  sweep_now_and_then();
  return database_->write([&](Transaction& transaction) { return take_free(transaction, claim); });
}

std::vector<std::optional<FencingToken>> SqliteLockStore::take_free(
    std::span<const LockClaim> claims) {
  activity_->keep_awake();
  return database_->write([&](Transaction& transaction) {
    std::vector<std::optional<FencingToken>> tokens;
    for (const LockClaim& claim : claims) tokens.push_back(take_free(transaction, claim));
    return tokens;
  });
}

ClaimOutcome SqliteLockStore::claim(const LockClaim& claim) {
  sweep_now_and_then();
  auto outcome = change([&](Transaction& transaction, LockEffects& effects) {
    LockLine line(transaction, claim.name, Moment::now(), effects);
    return contend(line, claim, claimant_);
  });
  if (std::holds_alternative<LockConflict>(outcome)) activity_->look_often();
  return outcome;
}

void SqliteLockStore::renew(std::span<LockRenewal> renewals, milliseconds timeout) {
  activity_->keep_awake();
  while (!renewals.empty()) {
    const auto piece = renewals.first(std::min(renewals.size(), most_renewals_at_once));
    renewals = renewals.subspan(piece.size());
    database_->write(timeout, [&](Transaction& transaction) {
      const Moment moment = Moment::now();
      for (LockRenewal& renewal : piece) renewal.result = renew(transaction, renewal, moment);
    });
  }
}

RenewalResult SqliteLockStore::renew(Transaction& transaction, const LockRenewal& renewal,
                                     const Moment& moment) {
  const bool exclusive = renewal.kind == LockKind::exclusive;
  const auto renewed =
      transaction.execute(exclusive ? lock_sql::renew : lock_sql::renew_shared, renewal.name,
                          renewal.owner, moment.since_boot, renewal.ttl, renewal.heartbeat_every,
                          claimant_.linger, renewal.renewals, renewal.metadata);
  if (renewed == 1) return RenewalResult::renewed;
  if (!exclusive) return RenewalResult::vanished;
  LockEffects unused;
  LockLine line(transaction, renewal.name, moment, unused);
  line.look();
  return line.holder() == Holder::none ? RenewalResult::vanished : RenewalResult::taken;
}

std::vector<Standing> SqliteLockStore::verify(std::span<const LockGrantId> grants,
                                              milliseconds timeout) {
  return database_->read(timeout, [&](Transaction& transaction) {
    const Moment moment = Moment::now();
    std::vector<Standing> standings;
    for (const LockGrantId& grant : grants) {
      LockEffects unused;
      LockLine line(transaction, grant.name, moment, unused);
      line.look();
      standings.push_back(line.grant_of(grant.owner)      ? Standing::held
                          : line.holder() == Holder::none ? Standing::vanished
                                                          : Standing::taken);
    }
    return standings;
  });
}

ReleaseResult SqliteLockStore::release(std::string_view name, std::string_view owner) {
  activity_->keep_awake();
  const auto released = database_->single([&](Transaction& transaction) {
    return transaction.execute(lock_sql::release_alone, name, owner);
  });
  if (released == 1) return ReleaseResult::released;
  return change([&](Transaction& transaction, LockEffects& effects) {
    return release(transaction, {name, owner}, effects);
  });
}

ReleaseResult SqliteLockStore::release(Transaction& transaction, const LockGrantId& grant,
                                       LockEffects& effects) {
  LockLine line(transaction, grant.name, Moment::now(), effects);
  line.settle();
  ReleaseResult result = ReleaseResult::vanished;
  if (line.grant_of(grant.owner)) {
    line.remove(grant.owner);
    result = ReleaseResult::released;
  } else if (line.holder() != Holder::none) {
    result = ReleaseResult::taken;
  }
  line.remove_waiter(grant.owner);
  line.advance();
  line.tidy();
  return result;
}

std::vector<ReleaseResult> SqliteLockStore::release_all(std::span<const LockGrantId> grants) {
  return change([&](Transaction& transaction, LockEffects& effects) {
    std::vector<ReleaseResult> results;
    for (const LockGrantId& grant : grants) {
      const auto alone = transaction.execute(lock_sql::release_alone, grant.name, grant.owner);
      results.push_back(alone == 1 ? ReleaseResult::released
                                   : release(transaction, grant, effects));
    }
    return results;
  });
}

RenewalResult SqliteLockStore::downgrade(const LockRenewal& renewal) {
  return change([&](Transaction& transaction, LockEffects& effects) {
    LockLine line(transaction, renewal.name, Moment::now(), effects);
    line.settle();
    if (line.holder() == Holder::none) return RenewalResult::vanished;
    const StoredClaim* mine = line.grant_of(renewal.owner);
    if (!mine) return RenewalResult::taken;
    if (!mine->exclusive()) return RenewalResult::renewed;  // an answer was lost
    line.downgrade(renewal, claimant_.linger);
    line.advance();
    return RenewalResult::renewed;
  });
}

void SqliteLockStore::resize(std::string_view name, int permits) {
  change([&](Transaction& transaction, LockEffects& effects) {
    LockLine line(transaction, name, Moment::now(), effects);
    line.settle();
    if (line.holder() == Holder::shared || line.waiter_count() > 0) {
      line.set_permits(permits);
      line.advance();
    }
    line.tidy();
    return true;
  });
}

void SqliteLockStore::watch_lines(std::span<LineWatch> lines) {
  change([&](Transaction& transaction, LockEffects& effects) {
    for (LineWatch& watch : lines) {
      LockLine line(transaction, watch.name, Moment::now(), effects);
      line.settle();
      line.advance(claimant_.client);
      line.tidy();
      watch.in_line = line.find(watch.owner) || line.is_waiting(watch.owner);
      watch.lease_ends = milliseconds{-1};
      const auto look_at = [&](milliseconds end) {
        const auto left = std::max(milliseconds{0}, end - line.moment().since_boot);
        if (watch.lease_ends < milliseconds{0} || left < watch.lease_ends) watch.lease_ends = left;
      };
      for (const StoredClaim& claim : line.holders()) look_at(claim.ends);
      if (line.answer_due()) look_at(*line.answer_due());
    }
    return true;
  });
}

/// Passes word on, from wherever it comes.
class SqliteLockStore::Listener final : public LockListener {
 public:
  Listener(SqliteLockStore& store, std::function<void(const LockMessage&)> handler)
      : store_(store),
        handler_(std::move(handler)),
        watcher_(*store.database_, store.claimant_.client,
                 {.on_message = [this](std::string_view text) { hear(text); },
                  .on_change = [this](Connection& connection) { read_messages(connection); },
                  .on_reset = [this] { reset(); }},
                 store.activity_) {}

 private:
  void hear(std::string_view text) {
    if (const auto message = read_message(text)) handler_(*message);
  }

  void read_messages(Connection& connection) {
    // Before those for us: what is written in between is read now or the next time. Ids grow with
    // the commits, so nothing comes below it any more. And so nobody reads what is for others
    // twice.
    std::int64_t newest = 0;
    {
      auto row = connection.prepare(lock_sql::newest_message);
      row.step();
      newest = row.integer(0);
    }
    std::vector<std::string> texts;
    {
      auto rows = connection.prepare(lock_sql::messages, read_up_to_, store_.claimant_.client);
      while (rows.step()) {
        newest = std::max(newest, rows.integer(0));
        texts.emplace_back(rows.text(1));
      }
    }
    read_up_to_ = std::max(read_up_to_, newest);  // all are gone: newest is 0
    for (const std::string& text : texts) hear(text);
  }

  void reset() {
    read_up_to_ = 0;
    handler_({LockMessage::Type::reset, {}});
  }

  SqliteLockStore& store_;
  const std::function<void(const LockMessage&)> handler_;
  std::int64_t read_up_to_ = 0;  // of the watcher's thread
  Watcher watcher_;              // the last: it calls us
};

std::unique_ptr<LockListener> SqliteLockStore::listen(
    std::function<void(const LockMessage&)> handler) {
  return std::make_unique<Listener>(*this, std::move(handler));
}

std::optional<LockRecord> SqliteLockStore::status(std::string_view name) {
  return database_->read([&](Transaction& transaction) {
    LockEffects unused;
    LockLine line(transaction, name, Moment::now(), unused);
    line.look();
    return line.detailed_record();
  });
}

void SqliteLockStore::visit(std::string_view pattern,
                            const std::function<bool(const LockRecord&)>& visitor) {
  const std::string glob = to_glob(pattern);
  std::string last;
  for (;;) {
    // The visitor is called outside of the transaction: it may use the client.
    std::vector<std::string> names;
    std::vector<LockRecord> records;
    database_->read([&](Transaction& transaction) {
      names.clear();
      records.clear();
      {
        auto rows = transaction.prepare(lock_sql::names, last, glob, names_a_page);
        while (rows.step()) names.emplace_back(rows.text(0));
      }
      const Moment moment = Moment::now();
      for (const std::string& name : names) {
        LockEffects unused;
        LockLine line(transaction, name, moment, unused);
        line.look();
        if (auto record = line.record()) records.push_back(std::move(*record));
      }
    });
    if (names.empty()) return;
    last = names.back();
    for (const LockRecord& record : records) {
      if (!visitor(record)) return;
    }
  }
}

std::vector<LockRecord> SqliteLockStore::remove_stale(std::string_view pattern) {
  std::vector<LockRecord> removed;
  visit(pattern, [&](const LockRecord& seen) {
    if (seen.state != LockState::stale) return true;
    auto record = database_->write([&](Transaction& transaction) -> std::optional<LockRecord> {
      LockEffects unused;
      LockLine line(transaction, seen.name, Moment::now(), unused);
      line.look();
      if (line.holder() != Holder::stale) return std::nullopt;  // renewed or taken meanwhile
      auto stale = line.record();
      line.remove(std::string(line.current()->owner));
      return stale;
    });
    if (record) removed.push_back(std::move(*record));
    return true;
  });
  return removed;
}

std::optional<LockRecord> SqliteLockStore::force_release(std::string_view name) {
  return change([&](Transaction& transaction, LockEffects& effects) {
    LockLine line(transaction, name, Moment::now(), effects);
    line.settle();
    auto record = line.record();
    if (record) {
      line.oust("vanished ");
      line.advance();
      line.tidy();
      record->waiter_count = line.waiter_count();
    }
    return record;
  });
}

/// So that a database in which many names are used once does not grow for ever: a few names at a
/// time, by whoever uses locks.
void SqliteLockStore::sweep_now_and_then() {
  const std::int64_t now = since_boot().count();
  std::int64_t due = sweep_at_.load(std::memory_order_relaxed);
  if (now < due || !sweep_at_.compare_exchange_strong(due, now + sweep_every.count())) return;
  try {
    sweep();
  } catch (const Error&) {
    // The call that comes now meets the same trouble and tells its caller.
  }
}

void SqliteLockStore::sweep() {
  const std::lock_guard guard(sweep_mutex_);
  // Whoever is in the way now is not waited for: the call that comes next does that.
  swept_up_to_ = change(milliseconds{0}, [&](Transaction& transaction, LockEffects& effects) {
    std::string last;
    {
      auto row = transaction.prepare(lock_sql::sweep_page, swept_up_to_, names_a_sweep);
      if (!row.step() || row.is_null(0)) return std::string();
      last = row.text(0);
    }
    const Moment moment = Moment::now();
    transaction.execute(lock_sql::sweep_claims, swept_up_to_, last, moment.since_boot);
    std::vector<std::string> unsettled;
    {
      auto rows =
          transaction.prepare(lock_sql::unsettled_lines, swept_up_to_, last, moment.since_boot);
      while (rows.step()) unsettled.emplace_back(rows.text(0));
    }
    for (const std::string& name : unsettled) {
      LockLine line(transaction, name, moment, effects);
      line.settle();
      line.advance();
      line.tidy();
    }
    transaction.execute(lock_sql::sweep_tokens, swept_up_to_, last, moment.wall - keep_counters_);
    return last;
  });
}

}  // namespace leasehold::inline v0::sqlite
