#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "tests/history/history.hpp"

namespace leasehold::testing {

/// What a history must show.
///
/// A grant is *trusted* from the moment that its acquire returned until it is given back, lost, or
/// not promised any longer, whichever comes first. What was promised counts even if the process was
/// killed: the others rely on the same time.
///
/// A grant is *protected* as long as nothing happened that may end it over its holder's head: an
/// override of somebody else (force, steal_stale, force_release) or a loss of Redis' data. The
/// holder may believe in it for longer; that is documented, and what tokens are for. When in doubt
/// the protection ends where the other operation began.
enum class Rule {
  two_writers,           ///< two exclusive grants trusted and protected at once
  reader_beside_writer,  ///< a shared grant, or a permit, and an exclusive one
  too_many_permits,      ///< more than the limit; forced ones do not count

  /// Tokens of exclusive grants grow, those of shared ones do not fall behind: from an acquire that
  /// ended to one that began later, whatever happened between; and in the order in which protected
  /// grants began to be trusted.
  token_order,

  /// The release of one who did not hold it ended a lock: it was told "done" while another held it,
  /// or a trusted and protected holder found its lock gone.
  freed_by_another,

  valid_again,           ///< a grant that was lost, given back or not valid was valid later
  stale_write_accepted,  ///< the register took a token smaller than one before
  lost_update,           ///< a write came from a value that was not the latest
  valid_holder_refused,  ///< the register refused the token of a trusted and protected holder
};

const char* to_string(Rule rule);

/// Two events that cannot both be.
struct Violation {
  Rule rule;
  Event first;
  Event second;
};

/// Rule, lock, and both events with the place where they stand.
std::ostream& operator<<(std::ostream& out, const Violation& violation);

std::vector<Violation> check_history(const History& history);

}  // namespace leasehold::testing
