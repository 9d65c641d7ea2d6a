#include "sqlite/locks/sqlite_lock_store.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "leasehold/errors.hpp"
#include "sqlite/database/machine_clock.hpp"
#include "sqlite/locks/lock_cleanup.hpp"
#include "sqlite/locks/lock_listener.hpp"
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

constexpr milliseconds messages_are_kept{10'000};  // longer than a watcher may be stopped

constexpr milliseconds clean_up_every{1'000};
constexpr int names_a_page = 200;

ClientIdentity identify_client(const SqliteLockStore::Options& options) {
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

/// Translates a pattern for SQLite's GLOB, which does not know the backslash.
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
    : identity_(identify_client(options)),
      keep_counters_(options.keep_counters),
      timeout_(options.timeout),
      database_(open_database(uri, open_options(options))),
      clean_up_at_((since_boot() + clean_up_every).count()) {}

/// Runs `fn(Transaction&, LockEffects&)` in a transaction, then sends the messages that it caused.
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

std::optional<FencingToken> SqliteLockStore::take_free(Transaction& transaction,
                                                       const AcquireRequest& request) {
  const ClockReading clock = ClockReading::now();
  FencingToken token{static_cast<std::uint64_t>(clock.wall.count())};
  {
    // Plain statements: for RETURNING SQLite sets up a table, which costs more than all the rest.
    auto row = transaction.prepare(lock_sql::free_token, request.name);
    if (!row.step()) return std::nullopt;
    token.value = std::max(token.value, static_cast<std::uint64_t>(row.integer(0)) + 1);
  }
  write_grant(transaction, request, identity_, clock, token);
  return token;
}

AcquireOutcome SqliteLockStore::acquire(const AcquireRequest& request) {
  clean_up_now_and_then();
  const bool joins = request.join != Join::no;
  if (request.attempt == Attempt::first) {
    if (request.kind == LockKind::exclusive) {
      // Most locks are free: the lean way is tried first.
      activity_->keep_awake();
      const auto token = database_->write(
          [&](Transaction& transaction) { return take_free(transaction, request); });
      if (token) return Granted{.token = *token};
    } else {
      auto outcome = contend(request, Attempt::first, Join::no);
      if (!joins || std::holds_alternative<Granted>(outcome)) return outcome;
    }
  }
  if (joins && request.before_joining) request.before_joining();
  return contend(request, Attempt::later, request.join);
}

std::vector<std::optional<FencingToken>> SqliteLockStore::acquire_free(
    std::span<const AcquireRequest> requests) {
  activity_->keep_awake();
  return database_->write([&](Transaction& transaction) {
    std::vector<std::optional<FencingToken>> tokens;
    for (const AcquireRequest& request : requests) {
      tokens.push_back(take_free(transaction, request));
    }
    return tokens;
  });
}

AcquireOutcome SqliteLockStore::contend(const AcquireRequest& request, Attempt attempt, Join join) {
  auto outcome = change([&](Transaction& transaction, LockEffects& effects) {
    LockLine line(transaction, request.name, ClockReading::now(), effects);
    return sqlite::contend(line, request, identity_, attempt, join);
  });
  if (std::holds_alternative<Conflict>(outcome)) activity_->look_often();
  return outcome;
}

void SqliteLockStore::renew(std::span<LockRenewal> renewals, milliseconds timeout) {
  activity_->keep_awake();
  while (!renewals.empty()) {
    const auto piece = renewals.first(std::min(renewals.size(), most_renewals_at_once));
    renewals = renewals.subspan(piece.size());
    database_->write(timeout, [&](Transaction& transaction) {
      const ClockReading clock = ClockReading::now();
      for (LockRenewal& renewal : piece) renewal.result = renew(transaction, renewal, clock);
    });
  }
}

RenewalResult SqliteLockStore::renew(Transaction& transaction, const LockRenewal& renewal,
                                     const ClockReading& clock) {
  const bool exclusive = renewal.kind == LockKind::exclusive;
  const auto renewed =
      transaction.execute(exclusive ? lock_sql::renew : lock_sql::renew_shared, renewal.name,
                          renewal.owner, clock.since_boot, renewal.ttl, renewal.heartbeat_every,
                          identity_.linger, renewal.renewals, renewal.metadata);
  if (renewed == 1) return RenewalResult::renewed;
  if (!exclusive) return RenewalResult::vanished;
  LockEffects unused;
  LockLine line(transaction, renewal.name, clock, unused);
  line.look();
  const StoredGrant* current = line.current();
  const bool is_ours = current && current->owner == renewal.owner;  // it has ended
  return is_ours || line.holder() == Holder::none ? RenewalResult::vanished : RenewalResult::taken;
}

std::vector<Standing> SqliteLockStore::verify(std::span<const GrantId> grants,
                                              milliseconds timeout) {
  return database_->read(timeout, [&](Transaction& transaction) {
    const ClockReading clock = ClockReading::now();
    std::vector<Standing> standings;
    for (const GrantId& grant : grants) {
      LockEffects unused;
      LockLine line(transaction, grant.name, clock, unused);
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

ReleaseResult SqliteLockStore::release(Transaction& transaction, const GrantId& grant,
                                       LockEffects& effects) {
  LockLine line(transaction, grant.name, ClockReading::now(), effects);
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

std::vector<ReleaseResult> SqliteLockStore::release_all(std::span<const GrantId> grants) {
  return change([&](Transaction& transaction, LockEffects& effects) {
    std::vector<ReleaseResult> results;
    for (const GrantId& grant : grants) {
      const auto alone = transaction.execute(lock_sql::release_alone, grant.name, grant.owner);
      results.push_back(alone == 1 ? ReleaseResult::released
                                   : release(transaction, grant, effects));
    }
    return results;
  });
}

void SqliteLockStore::decline(const GrantId& offer) {
  change([&](Transaction& transaction, LockEffects& effects) {
    LockLine line(transaction, offer.name, ClockReading::now(), effects);
    line.settle();
    const StoredGrant* grant = line.grant_of(offer.owner);
    if (grant && !grant->confirmed) line.remove(offer.owner);
    line.advance();
    line.tidy();
    return true;
  });
}

RenewalResult SqliteLockStore::downgrade(const LockRenewal& renewal) {
  return change([&](Transaction& transaction, LockEffects& effects) {
    LockLine line(transaction, renewal.name, ClockReading::now(), effects);
    line.settle();
    if (line.holder() == Holder::none) return RenewalResult::vanished;
    const StoredGrant* mine = line.grant_of(renewal.owner);
    if (!mine) return RenewalResult::taken;
    if (mine == line.vanished()) return RenewalResult::vanished;
    if (!mine->exclusive()) return RenewalResult::renewed;  // a reply was lost
    line.downgrade(renewal, identity_.linger);
    line.advance();
    return RenewalResult::renewed;
  });
}

void SqliteLockStore::resize(std::string_view name, int permits) {
  change([&](Transaction& transaction, LockEffects& effects) {
    LockLine line(transaction, name, ClockReading::now(), effects);
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
      LockLine line(transaction, watch.name, ClockReading::now(), effects);
      const bool was_seen = line.is_seen(identity_.client);
      if (line.show(identity_.client) > 1) line.forget_unseen();
      line.settle();
      line.advance();
      watch.found = was_seen && line.is_waiting(watch.owner) ? LineWatch::Found::waiting
                    : line.find(watch.owner)                 ? LineWatch::Found::offered
                                                             : LineWatch::Found::missing;
      watch.alone = line.clients() == 1;
      watch.look_in = milliseconds{-1};
      const auto look_at = [&](milliseconds end) {
        const auto left = std::max(milliseconds{0}, end - line.clock().since_boot);
        if (watch.look_in < milliseconds{0} || left < watch.look_in) watch.look_in = left;
      };
      for (const StoredGrant& grant : line.holders()) look_at(grant.ends);
      if (line.head_ends() && line.waiter_count() > 1) look_at(*line.head_ends());
      line.tidy();
    }
    return true;
  });
}

std::unique_ptr<LockListener> SqliteLockStore::listen(
    std::function<void(const LockMessage&)> handler) {
  return std::make_unique<SqliteLockListener>(*database_, identity_.client, activity_,
                                              std::move(handler));
}

std::optional<LockRecord> SqliteLockStore::status(std::string_view name) {
  return database_->read([&](Transaction& transaction) {
    LockEffects unused;
    LockLine line(transaction, name, ClockReading::now(), unused);
    line.look();
    return line.detailed_record();
  });
}

void SqliteLockStore::visit(std::string_view pattern,
                            const std::function<bool(const LockRecord&)>& visitor) {
  const std::string glob = to_glob(pattern);
  std::string last;
  for (;;) {
    // The visitor is called after the transaction, because it may use the client.
    std::vector<std::string> names;
    std::vector<LockRecord> records;
    database_->read([&](Transaction& transaction) {
      names.clear();
      records.clear();
      {
        auto rows = transaction.prepare(lock_sql::names, last, glob, names_a_page);
        while (rows.step()) names.emplace_back(rows.text(0));
      }
      const ClockReading clock = ClockReading::now();
      for (const std::string& name : names) {
        LockEffects unused;
        LockLine line(transaction, name, clock, unused);
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
      LockLine line(transaction, seen.name, ClockReading::now(), unused);
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
    LockLine line(transaction, name, ClockReading::now(), effects);
    line.settle();
    auto record = line.record();
    if (record) {
      line.oust(LockMessage::Type::vanished);
      line.advance();
      line.tidy();
      record->waiter_count = line.waiter_count();
    }
    return record;
  });
}

void SqliteLockStore::clean_up_now_and_then() {
  const std::int64_t now = since_boot().count();
  std::int64_t due = clean_up_at_.load(std::memory_order_relaxed);
  if (now < due || !clean_up_at_.compare_exchange_strong(due, now + clean_up_every.count())) return;
  const ThreadLock lock(clean_up_mutex_);
  try {
    // Does not wait for other processes: the acquire that follows does.
    cleaned_up_to_ = change(milliseconds{0}, [&, last = cleaned_up_to_](Transaction& transaction,
                                                                        LockEffects& effects) {
      return clean_page(transaction, effects, last, keep_counters_);
    });
  } catch (const Error&) {
    // The acquire that follows meets the same error and reports it.
  }
}

}  // namespace leasehold::inline v0::sqlite
