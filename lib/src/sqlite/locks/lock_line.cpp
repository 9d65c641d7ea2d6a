#include "sqlite/locks/lock_line.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "sqlite/database/machine_clock.hpp"
#include "sqlite/locks/process_identity.hpp"
#include "sqlite_lock_queries.hpp"

namespace leasehold::inline v0::sqlite {
namespace {

using nlohmann::json;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::system_clock;

constexpr milliseconds time_to_confirm{1'000};
constexpr milliseconds time_to_answer{400};
constexpr std::uint64_t most_questions = 2;
// Places that a waiter gains with each step of priority, and a bit more, so that the higher
// priority wins a tie.
constexpr double overtake = 8.001;

constexpr std::string_view granted_word = "granted ";

system_clock::time_point to_wall(milliseconds time, const Moment& moment) {
  return system_clock::time_point{
      std::chrono::duration_cast<system_clock::duration>(moment.booted + time)};
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

StoredClaim read_claim(const Statement& row) {
  int column = 0;
  const auto text = [&] { return std::string(row.text(column++)); };
  const auto time = [&] { return milliseconds{row.integer(column++)}; };
  StoredClaim claim;
  claim.owner = text();
  claim.confirmed = text() == "held";
  claim.kind = row.text(column++).front();
  claim.client = text();
  claim.runner = text();
  claim.incarnation = text();
  claim.about = text();
  claim.metadata = text();
  claim.ttl = time();
  claim.every = time();
  claim.granted = time();
  claim.ends = time();
  claim.gone = time();
  claim.renewals = static_cast<std::uint64_t>(row.integer(column++));
  claim.token = {static_cast<std::uint64_t>(row.integer(column++))};
  return claim;
}

std::string_view as_text(const char& letter) { return {&letter, 1}; }

/// Most names are used again and again: then an UPDATE is faster than INSERT … ON CONFLICT.
void keep_token(Transaction& transaction, std::string_view name, FencingToken token) {
  if (transaction.execute(lock_sql::keep_token, name, token.value) == 0) {
    transaction.execute(lock_sql::first_token, name, token.value);
  }
}

}  // namespace

Moment Moment::now() {
  const auto since_boot = since_boot_in_us();
  const auto wall = wall_clock();
  return {std::chrono::floor<milliseconds>(since_boot), wall, wall - since_boot};
}

char kind_letter(LockKind kind, int permits) {
  if (kind == LockKind::exclusive) return 'x';
  return permits > 0 ? 'p' : 's';
}

std::optional<LockMessage> read_message(std::string_view text) {
  using Type = LockMessage::Type;
  constexpr std::array<std::pair<std::string_view, Type>, 3> types{
      {{granted_word, Type::granted}, {"taken ", Type::taken}, {"vanished ", Type::vanished}}};
  for (const auto& [word, type] : types) {
    if (text.starts_with(word)) return LockMessage{type, std::string(text.substr(word.size()))};
  }
  return std::nullopt;
}

LockRecord StoredClaim::to_record(std::string_view name, const Moment& moment) const {
  const milliseconds now = moment.since_boot;
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
  record.acquired_at = to_wall(now - record.age, moment);
  record.heartbeat_at = to_wall(now - record.heartbeat_age, moment);
  return record;
}

void write_grant(Transaction& transaction, const LockClaim& claim, const Claimant& claimant,
                 const Moment& moment, FencingToken token) {
  const char kind = kind_letter(claim.kind, claim.permits);
  transaction.execute(lock_sql::hold, claim.name, claim.owner, claimant.client, claimant.runner,
                      claimant.incarnation, claimant.about, claim.metadata, claim.ttl,
                      claim.heartbeat_every, claimant.linger, moment.since_boot, token.value,
                      as_text(kind), claim.permits);
  keep_token(transaction, claim.name, token);
}

/// Of which nothing is left: neither a lease nor a record that lingers.
bool LockLine::lapsed(const StoredClaim& claim) const {
  if (lives(claim)) return false;
  const bool leaves_a_record = claim.exclusive() && claim.confirmed;
  return !leaves_a_record || claim.gone <= moment_.since_boot;
}

void LockLine::look() {
  holders_.clear();
  auto rows = transaction_.prepare(lock_sql::holders, name_);
  while (rows.step()) {
    if (auto claim = read_claim(rows); !lapsed(claim)) holders_.push_back(std::move(claim));
  }
}

void LockLine::settle() {
  holders_.clear();
  std::vector<StoredClaim> over;
  {
    auto rows = transaction_.prepare(lock_sql::holders, name_);
    while (rows.step()) {
      auto claim = read_claim(rows);
      (lapsed(claim) ? over : holders_).push_back(std::move(claim));
    }
  }
  for (const StoredClaim& claim : over) {
    transaction_.execute(lock_sql::remove_holder, name_, claim.owner);
    if (claim.confirmed) continue;
    ++effects_.evicted;
    evict(claim.client);
  }
}

/// Of a process that has ended, or did not confirm in time, and so is dead or frozen, no waiter may
/// hold up the line. If it lives after all, it comes back to its places by itself.
void LockLine::evict(std::string_view client) {
  effects_.evicted +=
      static_cast<std::uint64_t>(transaction_.execute(lock_sql::evict, name_, client));
}

LockLine::Holder LockLine::holder() const {
  Holder holder = Holder::none;
  for (const StoredClaim& claim : holders_) {
    if (lives(claim)) return claim.exclusive() ? Holder::exclusive : Holder::shared;
    holder = Holder::stale;
  }
  return holder;
}

const StoredClaim* LockLine::current() const {
  for (const StoredClaim& claim : holders_) {
    if (lives(claim)) return claim.exclusive() ? &claim : nullptr;
  }
  return vanished();
}

const StoredClaim* LockLine::vanished() const {
  const auto found = std::find_if(holders_.begin(), holders_.end(),
                                  [this](const StoredClaim& claim) { return !lives(claim); });
  return found == holders_.end() ? nullptr : &*found;
}

const StoredClaim* LockLine::find(std::string_view owner) const {
  const auto found =
      std::find_if(holders_.begin(), holders_.end(),
                   [owner](const StoredClaim& claim) { return claim.owner == owner; });
  return found == holders_.end() ? nullptr : &*found;
}

const StoredClaim* LockLine::grant_of(std::string_view owner) const {
  const StoredClaim* found = find(owner);
  return found == vanished() && holder() != Holder::stale ? nullptr : found;
}

std::size_t LockLine::shared_holders() const {
  return static_cast<std::size_t>(
      std::count_if(holders_.begin(), holders_.end(),
                    [](const StoredClaim& claim) { return !claim.exclusive(); }));
}

/// While others share the lock, a waiter at the head that wants it alone keeps out those behind it:
/// it must not be dead or frozen. Its process shows that it lives by each call for this lock; one
/// that was silent is asked, and once more if it does not answer: whoever asked may have been
/// frozen itself.
bool LockLine::shows_life(const StoredClaim& head, std::string_view caller) {
  if (lives(head)) {
    if (head.renewals > 0) answer_due_ = head.ends;
    return true;
  }
  if (head.client == caller) {
    note_life(head.owner);
    return true;
  }
  if (waiter_count() == 1) return true;  // it is in nobody's way
  if (head.renewals == most_questions) return false;
  answer_due_ = moment_.since_boot + time_to_answer;
  transaction_.execute(lock_sql::sign_of_life, name_, head.owner, head.renewals + 1, *answer_due_);
  effects_.letters.push_back({head.client, std::string(granted_word) + head.owner});
  return true;
}

void LockLine::note_life(std::string_view owner) {
  transaction_.execute(lock_sql::sign_of_life, name_, owner, 0,
                       moment_.since_boot + time_to_answer);
}

void LockLine::advance(std::string_view caller) {
  answer_due_.reset();
  while (holder() != Holder::exclusive) {
    StoredClaim next;
    int limit = 0;
    {
      auto row = transaction_.prepare(lock_sql::first_waiter, name_);
      if (!row.step()) return;
      next.owner = row.text(0);
      next.kind = row.text(1).front();
      next.client = row.text(2);
      limit = static_cast<int>(row.integer(3));
      next.ends = milliseconds{row.integer(5)};
      next.renewals = static_cast<std::uint64_t>(row.integer(6));
    }
    if (has_ended(std::string_view(next.client).substr(next.client.find('@') + 1))) {
      evict(next.client);
      continue;
    }
    if (holder() == Holder::shared) {
      if (next.exclusive()) {
        if (shows_life(next, caller)) return;
        evict(next.client);
        continue;
      }
      const auto most = static_cast<std::size_t>(permits().value_or(limit));
      if (next.kind == 'p' && shared_holders() >= most) return;
    }
    next.confirmed = false;
    next.renewals = 0;
    next.granted = moment_.since_boot;
    next.ends = next.gone = moment_.since_boot + time_to_confirm;
    transaction_.execute(lock_sql::grant, name_, next.owner, next.granted, next.ends);
    effects_.letters.push_back({next.client, std::string(granted_word) + next.owner});
    holders_.push_back(std::move(next));
  }
}

void LockLine::hold(const LockClaim& claim, const Claimant& claimant, FencingToken token) {
  remove(claim.owner);
  remove_waiter(claim.owner);
  write_grant(transaction_, claim, claimant, moment_, token);
  StoredClaim held;
  held.owner = claim.owner;
  held.kind = kind_letter(claim.kind, claim.permits);
  held.client = claimant.client;
  held.ends = moment_.since_boot + claim.ttl;
  holders_.push_back(std::move(held));
}

void LockLine::downgrade(const LockRenewal& renewal, milliseconds linger) {
  transaction_.execute(lock_sql::downgrade, name_, renewal.owner, moment_.since_boot, renewal.ttl,
                       renewal.heartbeat_every, linger, renewal.renewals, renewal.metadata);
  // Readers that come in beside it get its token.
  keep_token(transaction_, name_, renewal.token);
  look();
}

void LockLine::oust(std::string_view message) {
  for (const StoredClaim& claim : holders_) {
    tell(claim, message);
    transaction_.execute(lock_sql::remove_holder, name_, claim.owner);
  }
  holders_.clear();
}

/// One that has not confirmed yet has lost nothing: it is told to look again.
void LockLine::tell(const StoredClaim& claim, std::string_view message) {
  effects_.letters.push_back(
      {claim.client, std::string(claim.confirmed ? message : granted_word) + claim.owner});
}

void LockLine::remove(std::string_view owner) {
  if (!find(owner)) return;
  transaction_.execute(lock_sql::remove_holder, name_, owner);
  std::erase_if(holders_, [owner](const StoredClaim& claim) { return claim.owner == owner; });
}

std::uint64_t LockLine::join(const LockClaim& claim, const Claimant& claimant) {
  {
    auto known = transaction_.prepare(lock_sql::waiter, name_, claim.owner);
    if (known.step()) return static_cast<std::uint64_t>(known.integer(0));
  }
  // A new line counts on from the clock: so whoever stood in an earlier one, and could not be told,
  // comes back to it before those who came later.
  std::int64_t latest = moment_.since_boot.count();
  {
    auto row = transaction_.prepare(lock_sql::token, name_);
    if (row.step() && !row.is_null(2)) latest = row.integer(2);
  }
  const std::int64_t place = claim.place == 0 ? latest + 1 : static_cast<std::int64_t>(claim.place);
  transaction_.execute(lock_sql::set_place, name_, std::max(latest, place));
  double score = static_cast<double>(place) - claim.priority * overtake;
  if (claim.join == Join::head) {
    auto first = transaction_.prepare(lock_sql::first_waiter, name_);
    if (first.step()) score = first.real(4) - 1;
  }
  const char kind = kind_letter(claim.kind, claim.permits);
  transaction_.execute(lock_sql::join, name_, claim.owner, claimant.client, claimant.runner,
                       claimant.incarnation, claimant.about, claim.metadata, claim.ttl,
                       claim.heartbeat_every, claimant.linger, moment_.since_boot, as_text(kind),
                       claim.permits, claim.priority, place, score);
  return static_cast<std::uint64_t>(place);
}

void LockLine::remove_waiter(std::string_view owner) {
  transaction_.execute(lock_sql::remove_waiter, name_, owner);
}

bool LockLine::is_waiting(std::string_view owner) const {
  return transaction_.prepare(lock_sql::waiter, name_, owner).step();
}

bool LockLine::others_wait(std::string_view owner) const {
  auto first = transaction_.prepare(lock_sql::first_waiter, name_);
  return first.step() && first.text(0) != owner;
}

std::uint64_t LockLine::waiter_count() const {
  auto row = transaction_.prepare(lock_sql::waiter_count, name_);
  row.step();
  return static_cast<std::uint64_t>(row.integer(0));
}

std::vector<LockWaiter> LockLine::waiters() const {
  std::vector<LockWaiter> waiters;
  auto row = transaction_.prepare(lock_sql::waiters, name_);
  while (row.step()) {
    const Person person = read_about(row.text(1));
    waiters.push_back({.runner = std::string(row.text(0)),
                       .pid = person.pid,
                       .host = person.host,
                       .kind = row.text(2) == "x" ? LockKind::exclusive : LockKind::shared,
                       .priority = static_cast<int>(row.integer(3)),
                       .since = to_wall(milliseconds{row.integer(4)}, moment_)});
  }
  return waiters;
}

FencingToken LockLine::known_token() const {
  auto row = transaction_.prepare(lock_sql::token, name_);
  return {row.step() ? static_cast<std::uint64_t>(row.integer(0)) : 0};
}

FencingToken LockLine::next_token() const {
  return {std::max(known_token().value + 1, static_cast<std::uint64_t>(moment_.wall.count()))};
}

FencingToken LockLine::shared_token() const {
  const FencingToken known = known_token();
  return known.value != 0 ? known : next_token();
}

std::optional<int> LockLine::permits() const {
  auto row = transaction_.prepare(lock_sql::token, name_);
  if (!row.step() || row.is_null(1)) return std::nullopt;
  return static_cast<int>(row.integer(1));
}

void LockLine::set_permits(int permits) {
  transaction_.execute(lock_sql::set_permits, name_, permits);
}

void LockLine::tidy() { transaction_.execute(lock_sql::tidy, name_); }

std::optional<LockRecord> LockLine::record() const {
  LockRecord record;
  switch (holder()) {
    case Holder::none:
      return std::nullopt;
    case Holder::shared:
      record.name = name_;
      record.kind = LockKind::shared;
      record.token = known_token();
      record.holder_count = shared_holders();
      break;
    case Holder::exclusive:
    case Holder::stale:
      record = current()->to_record(name_, moment_);
      if (record.token.value == 0) record.token = known_token();
      break;
  }
  record.waiter_count = waiter_count();
  return record;
}

std::optional<LockRecord> LockLine::detailed_record() const {
  auto record = this->record();
  if (!record) return std::nullopt;
  if (record->kind == LockKind::shared) {
    for (const StoredClaim& claim : holders_) {
      if (claim.exclusive()) continue;  // one that vanished before them
      record->holders.push_back(claim.to_record(name_, moment_));
      if (claim.token.value == 0) record->holders.back().token = record->token;
    }
    std::sort(record->holders.begin(), record->holders.end(),
              [](const auto& a, const auto& b) { return a.remaining < b.remaining; });
  }
  record->waiters = waiters();
  return record;
}

}  // namespace leasehold::inline v0::sqlite
