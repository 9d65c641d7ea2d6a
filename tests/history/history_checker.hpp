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
///
/// A grant that is renewed by a request sent after a loss of data was not lost with it: it is
/// protected from then on as before. So whoever lost its grant must be told when it asks next, and
/// trusts it no longer than it was promised before.
enum class Rule {
  two_writers,           ///< two exclusive grants trusted and protected at once
  reader_beside_writer,  ///< a shared grant, or a permit, and an exclusive one
  too_many_permits,      ///< more than the limit; forced ones do not count

  /// Tokens of exclusive grants grow, those of shared ones do not fall behind: from an acquire that
  /// ended to one that began later, whatever happened between; and in the order in which protected
  /// grants began to be trusted. There is one exception: after a loss of data a reader may have the
  /// token of readers that the older data still has.
  token_order,

  /// The release of one who did not hold it ended a lock: it was told "done" while another held it,
  /// or a trusted and protected holder found its lock gone.
  freed_by_another,

  valid_again,           ///< a grant that was lost, given back or not valid was valid later
  stale_write_accepted,  ///< the register took a token smaller than one before
  lost_update,           ///< a write came from a value that was not the latest
  valid_holder_refused,  ///< the register refused the token of a trusted and protected holder
  not_told,              ///< the trusted time was over, and lost() did not fire
  lease_revived,         ///< the store prolonged a lease that had ended
  not_recovered,         ///< a lock could not be taken long after the last fault
};

const char* to_string(Rule rule);
/// The invariants of the design that it belongs to, e.g. "L2, L11".
const char* invariants_of(Rule rule);

/// Two events that cannot both be.
struct Violation {
  Rule rule;
  Event first;
  Event second;
};

/// Rule, invariants, lock, and both events with the place where they stand.
std::ostream& operator<<(std::ostream& out, const Violation& violation);

std::vector<Violation> check_history(const History& history);

}  // namespace leasehold::testing
