#include <algorithm>

#include "sqlite/locks/lock_line.hpp"

namespace leasehold::inline v0::sqlite {
namespace {

using std::chrono::milliseconds;
using Holder = LockLine::Holder;

/// One claim against those who have the lock and those who wait for it. Repeating it with the same
/// owner is safe and keeps the place in the line.
class Contest {
 public:
  Contest(LockLine& line, const LockClaim& claim, const Claimant& claimant)
      : line_(line), claim_(claim), claimant_(claimant) {}

  ClaimOutcome run() {
    line_.settle();
    const bool limits = claim_.kind == LockKind::shared && claim_.permits > 0;
    if (limits && (claim_.permit_count == PermitCount::counts || !line_.permits())) {
      line_.set_permits(claim_.permits);
    }
    if (auto grant = own()) return *grant;
    if (auto grant = adopt()) return *grant;
    if (auto grant = by_force()) return *grant;
    if (auto grant = steal()) return *grant;
    if (claim_.join == Join::no && has_room() && !is_my_turn()) {
      look_after_line({});  // it will not be told if only the dead stand there
    }
    if (has_room() && is_my_turn()) {
      const bool stale = line_.holder() == Holder::stale;
      return grant(stale ? GrantKind::stale : GrantKind::fresh, stale ? line_.current() : nullptr);
    }
    return wait(limits);
  }

 private:
  bool exclusive() const { return claim_.kind == LockKind::exclusive; }
  bool fits_beside() const { return line_.holder() == Holder::shared && !exclusive(); }

  /// What it has already: an answer was lost, or the line granted it.
  std::optional<LockGrant> own() {
    const StoredClaim* mine = line_.find(claim_.owner);
    if (!mine || mine == line_.vanished()) return std::nullopt;
    if (!mine->confirmed) return grant(GrantKind::handed, line_.vanished());
    return LockGrant{.kind = GrantKind::repeated, .token = mine->token};
  }

  /// From an earlier incarnation of its own runner.
  std::optional<LockGrant> adopt() {
    const StoredClaim* current = line_.current();
    if (!current || !exclusive() || claim_.adoption == Adoption::refused) return std::nullopt;
    const bool is_ours = claimant_.persistent && current->runner == claimant_.runner &&
                         current->incarnation != claimant_.incarnation;
    if (!is_ours || !current->confirmed) return std::nullopt;
    LockGrant grant{.kind = GrantKind::adopted,
                    .token = current->token,
                    .previous = current->to_record(line_.name(), line_.moment())};
    line_.remove(std::string(current->owner));
    line_.hold(claim_, claimant_, grant.token);
    line_.tidy();
    return grant;
  }

  std::optional<LockGrant> by_force() {
    const Holder holder = line_.holder();
    if (claim_.mode != ClaimMode::always) return std::nullopt;
    if (holder == Holder::none || holder == Holder::stale) return std::nullopt;
    if (fits_beside()) return grant(GrantKind::forced, nullptr);
    return oust(GrantKind::forced);
  }

  std::optional<LockGrant> steal() {
    if (claim_.mode != ClaimMode::if_silent || line_.holder() != Holder::exclusive) {
      return std::nullopt;
    }
    const StoredClaim& current = *line_.current();
    const milliseconds silent_for = line_.moment().since_boot - current.last_heartbeat();
    if (!current.confirmed || silent_for < std::max(claim_.steal_after, 2 * current.every)) {
      return std::nullopt;
    }
    return oust(GrantKind::stolen);
  }

  LockGrant oust(GrantKind kind) {
    std::optional<StoredClaim> previous;
    if (line_.current()) previous = *line_.current();
    line_.oust("taken ");
    return grant(kind, previous ? &*previous : nullptr);
  }

  LockGrant grant(GrantKind kind, const StoredClaim* previous) {
    LockGrant grant{.kind = kind, .token = exclusive() ? line_.next_token() : line_.shared_token()};
    if (previous) {
      grant.previous = previous->to_record(line_.name(), line_.moment());
      line_.remove(std::string(previous->owner));  // its heir knows of it now
    }
    line_.hold(claim_, claimant_, grant.token);
    if (!exclusive()) line_.advance();  // others may fit in beside it
    line_.tidy();
    return grant;
  }

  bool has_room() const {
    if (!fits_beside()) {
      return line_.holder() == Holder::none || line_.holder() == Holder::stale;
    }
    if (claim_.permits == 0) return true;
    const auto most = static_cast<std::size_t>(line_.permits().value_or(claim_.permits));
    return line_.shared_holders() < most;
  }

  /// Nobody overtakes those who stand in line, except by force.
  bool is_my_turn() const {
    return claim_.join == Join::head || claim_.mode == ClaimMode::always ||
           !line_.others_wait(claim_.owner);
  }

  void look_after_line(std::string_view caller) {
    line_.advance(caller);
    line_.look();
  }

  LockConflict wait(bool limits) {
    LockConflict conflict{.place = claim_.place};
    if (claim_.join != Join::no) conflict.place = line_.join(claim_, claimant_);
    if (exclusive() && line_.holder() == Holder::shared && !line_.others_wait(claim_.owner)) {
      line_.note_life(claim_.owner);
    }
    // A larger number of permits makes room for those who wait.
    if (claim_.join != Join::no && (has_room() || limits)) look_after_line(claimant_.client);
    line_.tidy();
    if (auto holder = line_.record()) {
      conflict.holder = std::move(*holder);
    } else {
      conflict.holder.name = claim_.name;
    }
    return conflict;
  }

  LockLine& line_;
  const LockClaim& claim_;
  const Claimant& claimant_;
};

}  // namespace

ClaimOutcome contend(LockLine& line, const LockClaim& claim, const Claimant& claimant) {
  return Contest{line, claim, claimant}.run();
}

}  // namespace leasehold::inline v0::sqlite
