#include "sqlite/locks/lock_line.hpp"

#include <algorithm>

#include "locks/line_rules.hpp"
#include "sqlite/locks/process_identity.hpp"
#include "sqlite_lock_queries.hpp"

namespace leasehold::inline v0::sqlite {

using std::chrono::milliseconds;

/// Nothing is left of it: the grant has ended, and so has the time that its record lingers.
bool LockLine::lapsed(const StoredGrant& grant) const {
  if (lives(grant)) return false;
  const bool leaves_a_record = grant.exclusive() && grant.confirmed;
  return !leaves_a_record || grant.gone <= clock_.since_boot;
}

void LockLine::look() {
  holders_.clear();
  auto rows = transaction_.prepare(lock_sql::holders, name_);
  while (rows.step()) {
    if (auto grant = read_grant(rows); !lapsed(grant)) holders_.push_back(std::move(grant));
  }
}

void LockLine::settle() {
  holders_.clear();
  std::vector<StoredGrant> over;
  {
    auto rows = transaction_.prepare(lock_sql::holders, name_);
    while (rows.step()) {
      auto grant = read_grant(rows);
      (lapsed(grant) ? over : holders_).push_back(std::move(grant));
    }
  }
  for (const StoredGrant& grant : over) {
    transaction_.execute(lock_sql::remove_holder, name_, grant.owner);
    if (grant.confirmed) continue;
    ++effects_.evicted;
    forget_client(grant.client);  // it did not confirm in time
  }
}

std::optional<milliseconds> LockLine::last_seen(std::string_view client) const {
  auto row = transaction_.prepare(lock_sql::last_seen, name_, client);
  return row.step() ? std::optional(milliseconds{row.integer(0)}) : std::nullopt;
}

std::size_t LockLine::clients() const {
  auto row = transaction_.prepare(lock_sql::client_count, name_);
  row.step();
  return static_cast<std::size_t>(row.integer(0));
}

std::size_t LockLine::show(std::string_view client) {
  const bool is_new = !is_seen(client);
  transaction_.execute(lock_sql::show, name_, client, clock_.since_boot);
  const std::size_t number = clients();
  if (!is_new || number != 2) return number;
  std::string other;  // it was alone and did not have to show itself: its time starts now
  {
    auto row = transaction_.prepare(lock_sql::other_client, name_, client);
    row.step();
    other = row.text(0);
  }
  transaction_.execute(lock_sql::show, name_, other, clock_.since_boot);
  effects_.letters.push_back(
      {other, to_text({LockMessage::Type::crowded, "-", std::string(name_)})});
  return number;
}

/// For how long a client that waits still counts as alive.
milliseconds LockLine::life_of(std::string_view client) {
  const auto seen = last_seen(client);
  if (!seen) return milliseconds{0};
  if (has_ended(process_of(client))) {
    forget_client(client);
    return milliseconds{0};
  }
  if (clients() == 1) return line_rules::time_to_show;
  return *seen + line_rules::time_to_show - clock_.since_boot;
}

void LockLine::forget_client(std::string_view client) {
  transaction_.execute(lock_sql::forget_client, name_, client);
}

void LockLine::forget_unseen() {
  transaction_.execute(lock_sql::forget_unseen, name_,
                       clock_.since_boot - line_rules::time_to_show);
}

LockLine::Holder LockLine::holder() const {
  Holder holder = Holder::none;
  for (const StoredGrant& grant : holders_) {
    if (lives(grant)) return grant.exclusive() ? Holder::exclusive : Holder::shared;
    holder = Holder::stale;
  }
  return holder;
}

const StoredGrant* LockLine::current() const {
  for (const StoredGrant& grant : holders_) {
    if (lives(grant)) return grant.exclusive() ? &grant : nullptr;
  }
  return vanished();
}

const StoredGrant* LockLine::vanished() const {
  const auto found = std::find_if(holders_.begin(), holders_.end(),
                                  [this](const StoredGrant& grant) { return !lives(grant); });
  return found == holders_.end() ? nullptr : &*found;
}

const StoredGrant* LockLine::find(std::string_view owner) const {
  const auto found =
      std::find_if(holders_.begin(), holders_.end(),
                   [owner](const StoredGrant& grant) { return grant.owner == owner; });
  return found == holders_.end() ? nullptr : &*found;
}

const StoredGrant* LockLine::grant_of(std::string_view owner) const {
  const StoredGrant* found = find(owner);
  return found == vanished() && holder() != Holder::stale ? nullptr : found;
}

std::size_t LockLine::shared_holders() const {
  return static_cast<std::size_t>(
      std::count_if(holders_.begin(), holders_.end(),
                    [](const StoredGrant& grant) { return !grant.exclusive(); }));
}

void LockLine::advance() {
  constexpr int most_passed = 50;
  int passed = 0;
  head_ends_.reset();
  while (holder() != Holder::exclusive) {
    StoredGrant next;
    int limit = 0;
    {
      auto row = transaction_.prepare(lock_sql::first_waiter, name_);
      if (!row.step()) return;
      next.owner = row.text(0);
      next.kind = row.text(1).front();
      next.client = row.text(2);
      limit = static_cast<int>(row.integer(3));
    }
    const milliseconds life = life_of(next.client);
    if (life <= milliseconds{0}) {
      if (++passed > most_passed) {
        head_ends_ = clock_.since_boot;  // enough for one call: the next one goes on
        return;
      }
      // It is told: if it only stood still, it comes back to its place.
      send(next, LockMessage::Type::granted);
      remove_waiter(next.owner);
      ++effects_.evicted;
      continue;
    }
    if (holder() == Holder::shared) {
      if (next.exclusive()) {
        head_ends_ = clock_.since_boot + life;  // it waits until they have left
        return;
      }
      const auto most = static_cast<std::size_t>(permits().value_or(limit));
      if (next.kind == 'p' && shared_holders() >= most) return;
    }
    next.confirmed = false;
    next.granted = clock_.since_boot;
    next.ends = next.gone = clock_.since_boot + life;
    transaction_.execute(lock_sql::grant, name_, next.owner, next.granted, next.ends);
    send(next, LockMessage::Type::granted);
    holders_.push_back(std::move(next));
  }
}

void LockLine::hold(const AcquireRequest& request, const ClientIdentity& identity,
                    FencingToken token) {
  remove(request.owner);
  remove_waiter(request.owner);
  write_grant(transaction_, request, identity, clock_, token);
  StoredGrant held;
  held.owner = request.owner;
  held.kind = kind_letter(request.kind, request.permits);
  held.client = identity.client;
  held.ends = clock_.since_boot + request.ttl;
  holders_.push_back(std::move(held));
}

void LockLine::downgrade(const LockRenewal& renewal, milliseconds linger) {
  transaction_.execute(lock_sql::downgrade, name_, renewal.owner, clock_.since_boot, renewal.ttl,
                       renewal.heartbeat_every, linger, renewal.renewals, renewal.metadata);
  // Readers that come in beside it get its token.
  keep_token(transaction_, name_, renewal.token);
  look();
}

void LockLine::oust(LockMessage::Type message) {
  for (const StoredGrant& grant : holders_) {
    // An offer that is withdrawn is no loss: its waiter is told to ask again.
    send(grant, grant.confirmed ? message : LockMessage::Type::granted);
    transaction_.execute(lock_sql::remove_holder, name_, grant.owner);
  }
  holders_.clear();
}

void LockLine::send(const StoredGrant& to, LockMessage::Type message) {
  effects_.letters.push_back({to.client, to_text({message, to.owner, std::string(name_)})});
}

void LockLine::remove(std::string_view owner) {
  if (!find(owner)) return;
  transaction_.execute(lock_sql::remove_holder, name_, owner);
  std::erase_if(holders_, [owner](const StoredGrant& grant) { return grant.owner == owner; });
}

std::uint64_t LockLine::join(const AcquireRequest& request, const ClientIdentity& identity) {
  {
    auto known = transaction_.prepare(lock_sql::waiter, name_, request.owner);
    if (known.step()) return static_cast<std::uint64_t>(known.integer(0));
  }
  // A new line starts counting from the clock, so that a waiter of an earlier line that comes back
  // still stands before those who came later.
  std::int64_t latest = clock_.since_boot.count();
  {
    auto row = transaction_.prepare(lock_sql::token, name_);
    if (row.step() && !row.is_null(2)) latest = row.integer(2);
  }
  const std::int64_t place =
      request.place == 0 ? latest + 1 : static_cast<std::int64_t>(request.place);
  transaction_.execute(lock_sql::set_place, name_, std::max(latest, place));
  double score = static_cast<double>(place) - request.priority * line_rules::overtake;
  if (request.join == Join::head) {
    auto first = transaction_.prepare(lock_sql::first_waiter, name_);
    if (first.step()) score = first.real(4) - 1;
  }
  const char kind = kind_letter(request.kind, request.permits);
  transaction_.execute(lock_sql::join, name_, request.owner, identity.client, identity.runner,
                       identity.incarnation, identity.about, request.metadata, request.ttl,
                       request.heartbeat_every, identity.linger, clock_.since_boot,
                       std::string_view(&kind, 1), request.permits, request.priority, place, score);
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
  while (row.step()) waiters.push_back(read_waiter(row, clock_));
  return waiters;
}

FencingToken LockLine::known_token() const {
  auto row = transaction_.prepare(lock_sql::token, name_);
  return {row.step() ? static_cast<std::uint64_t>(row.integer(0)) : 0};
}

FencingToken LockLine::next_token() const {
  return {std::max(known_token().value + 1, static_cast<std::uint64_t>(clock_.wall.count()))};
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

void LockLine::tidy() {
  transaction_.execute(lock_sql::tidy, name_);
  transaction_.execute(lock_sql::forget_clients, name_);
}

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
      record = current()->to_record(name_, clock_);
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
    for (const StoredGrant& grant : holders_) {
      if (grant.exclusive()) continue;  // one that expired before them
      record->holders.push_back(grant.to_record(name_, clock_));
      if (grant.token.value == 0) record->holders.back().token = record->token;
    }
    std::sort(record->holders.begin(), record->holders.end(),
              [](const auto& a, const auto& b) { return a.remaining < b.remaining; });
  }
  record->waiters = waiters();
  return record;
}

}  // namespace leasehold::inline v0::sqlite
