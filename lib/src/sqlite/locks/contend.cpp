#include <algorithm>

#include "sqlite/locks/lock_line.hpp"
#include "sqlite/locks/process_identity.hpp"

namespace leasehold::inline v0::sqlite {
namespace {

using std::chrono::milliseconds;
using Holder = LockLine::Holder;

/// One request against the holders of the lock and those who wait for it. Repeating it with the
/// same owner is safe and keeps the place in the line.
class Contest {
 public:
  Contest(LockLine& line, const AcquireRequest& request, const ClientIdentity& identity,
          Attempt attempt, Join join)
      : line_(line), request_(request), identity_(identity), attempt_(attempt), join_(join) {}

  AcquireOutcome run() {
    line_.settle();
    const bool limits = request_.kind == LockKind::shared && request_.permits > 0;
    if (limits && (attempt_ == Attempt::first || !line_.permits())) {
      line_.set_permits(request_.permits);
    }
    if (auto granted = own()) return *granted;
    if (auto granted = adopt()) return *granted;
    if (auto granted = by_force()) return *granted;
    if (auto granted = steal()) return *granted;
    if (join_ == Join::no && has_room() && !is_my_turn()) {
      // Perhaps only crashed processes wait there, and nobody else looks. A newcomer does not wait,
      // but wants those who do to show themselves.
      line_.show("newcomer");
      look_after_line();
    }
    if (has_room() && is_my_turn()) {
      const bool stale = line_.holder() == Holder::stale;
      return grant(stale ? GrantKind::stale : GrantKind::fresh, stale ? line_.current() : nullptr);
    }
    return wait(limits);
  }

 private:
  bool exclusive() const { return request_.kind == LockKind::exclusive; }
  bool fits_beside() const { return line_.holder() == Holder::shared && !exclusive(); }

  /// What it has already: a reply was lost, or the line offered the lock.
  std::optional<Granted> own() {
    const StoredGrant* mine = line_.find(request_.owner);
    if (!mine || mine == line_.vanished()) return std::nullopt;
    if (!mine->confirmed) return grant(GrantKind::handed, line_.vanished());
    return Granted{.kind = GrantKind::repeated, .token = mine->token};
  }

  /// Takes over from an earlier incarnation of its own runner.
  std::optional<Granted> adopt() {
    const StoredGrant* current = line_.current();
    if (!current || !exclusive() || request_.adoption == Adoption::refused) return std::nullopt;
    const bool is_ours = identity_.persistent && current->runner == identity_.runner &&
                         current->incarnation != identity_.incarnation;
    if (!is_ours || !current->confirmed) return std::nullopt;
    const bool may_be_alive = line_.holder() == Holder::exclusive && !is_silent(*current) &&
                              !has_ended(process_of(current->client));
    if (may_be_alive) return oust(GrantKind::adopted);
    Granted granted{.kind = GrantKind::adopted,
                    .token = current->token,
                    .previous = current->to_record(line_.name(), line_.clock())};
    line_.remove(std::string(current->owner));
    line_.hold(request_, identity_, granted.token);
    line_.tidy();
    return granted;
  }

  std::optional<Granted> by_force() {
    const Holder holder = line_.holder();
    if (request_.mode != AcquireMode::always) return std::nullopt;
    if (holder == Holder::none || holder == Holder::stale) return std::nullopt;
    if (fits_beside()) return grant(GrantKind::forced, nullptr);
    return oust(GrantKind::forced);
  }

  std::optional<Granted> steal() {
    if (request_.mode != AcquireMode::if_silent || line_.holder() != Holder::exclusive) {
      return std::nullopt;
    }
    const StoredGrant& current = *line_.current();
    if (!current.confirmed || !is_silent(current, request_.steal_after)) return std::nullopt;
    return oust(GrantKind::stolen);
  }

  /// Whether a holder was silent for this long, and has missed two of its heartbeats. One that
  /// promised none keeps its lock until its ttl ends.
  bool is_silent(const StoredGrant& grant, milliseconds least = milliseconds{0}) const {
    if (grant.every == milliseconds{0}) return false;
    const milliseconds silent_for = line_.clock().since_boot - grant.last_heartbeat();
    return silent_for >= std::max(least, 2 * grant.every);
  }

  Granted oust(GrantKind kind) {
    std::optional<StoredGrant> previous;
    if (line_.current()) previous = *line_.current();
    line_.oust(LockMessage::Type::taken);
    return grant(kind, previous ? &*previous : nullptr);
  }

  Granted grant(GrantKind kind, const StoredGrant* previous) {
    Granted granted{.kind = kind, .token = exclusive() ? line_.next_token() : line_.shared_token()};
    if (previous) {
      granted.previous = previous->to_record(line_.name(), line_.clock());
      line_.remove(std::string(previous->owner));  // the new holder knows of it now
    }
    line_.hold(request_, identity_, granted.token);
    if (!exclusive()) line_.advance();  // others may fit in beside it
    line_.tidy();
    return granted;
  }

  bool has_room() const {
    if (!fits_beside()) {
      return line_.holder() == Holder::none || line_.holder() == Holder::stale;
    }
    if (request_.permits == 0) return true;
    const auto most = static_cast<std::size_t>(line_.permits().value_or(request_.permits));
    return line_.shared_holders() < most;
  }

  /// Nobody overtakes those who wait, except by force.
  bool is_my_turn() const {
    return join_ == Join::head || request_.mode == AcquireMode::always ||
           !line_.others_wait(request_.owner);
  }

  void look_after_line() {
    line_.advance();
    line_.look();
  }

  Conflict wait(bool limits) {
    Conflict conflict{.place = request_.place};
    if (join_ != Join::no) {
      conflict.place = line_.join(request_, identity_);
      conflict.alone = line_.show(identity_.client) == 1;
      // A larger number of permits makes room for those who wait.
      if (has_room() || limits) look_after_line();
    }
    line_.tidy();
    if (auto holder = line_.record()) {
      conflict.holder = std::move(*holder);
    } else {
      conflict.holder.name = request_.name;
    }
    return conflict;
  }

  LockLine& line_;
  const AcquireRequest& request_;
  const ClientIdentity& identity_;
  const Attempt attempt_;
  const Join join_;
};

}  // namespace

AcquireOutcome contend(LockLine& line, const AcquireRequest& request,
                       const ClientIdentity& identity, Attempt attempt, Join join) {
  return Contest{line, request, identity, attempt, join}.run();
}

}  // namespace leasehold::inline v0::sqlite
