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
    evict(grant.client);
  }
}

/// A process that has ended, or did not confirm in time, has crashed or hangs. None of its waiters
/// may hold up the line. If it comes back to life, they return to their places by themselves.
void LockLine::evict(std::string_view client) {
  effects_.evicted +=
      static_cast<std::uint64_t>(transaction_.execute(lock_sql::evict, name_, client));
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

/// While others share the lock, a waiter at the head that wants it exclusively keeps out those
/// behind it, so its process must be alive. Each call for this lock is a sign of life; a process
/// that was silent is asked for one.
bool LockLine::shows_life(const StoredGrant& head, std::string_view caller) {
  if (lives(head)) {
    if (head.renewals > 0) answer_due_ = head.ends;
    return true;
  }
  if (head.client == caller) {
    note_life(head.owner);
    return true;
  }
  if (waiter_count() == 1) return true;  // nobody waits behind it
  if (head.renewals == line_rules::most_questions) return false;
  answer_due_ = clock_.since_boot + line_rules::time_to_answer;
  transaction_.execute(lock_sql::sign_of_life, name_, head.owner, head.renewals + 1, *answer_due_);
  send(head, LockMessage::Type::granted);
  return true;
}

void LockLine::note_life(std::string_view owner) {
  transaction_.execute(lock_sql::sign_of_life, name_, owner, 0,
                       clock_.since_boot + line_rules::time_to_answer);
}

void LockLine::advance(std::string_view caller) {
  answer_due_.reset();
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
    next.granted = clock_.since_boot;
    next.ends = next.gone = clock_.since_boot + line_rules::time_to_confirm;
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
  effects_.letters.push_back({to.client, to_text({message, to.owner})});
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
