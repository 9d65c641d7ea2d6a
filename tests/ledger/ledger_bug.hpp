#pragma once

#include <string_view>
#include <vector>

namespace leasehold::testing {

/// A mistake in what the workers do, to show that the check of the ledger finds it.
enum class LedgerBug {
  none,
  effect_outside,           ///< the effect is committed before the completion
  effect_after_completion,  ///< the completion is committed before the effect
  unguarded_effect,         ///< a worker that has lost its lease has its effect all the same
  prefetched_count,         ///< tasks that were leased ahead count as crashed
  convict_innocent,         ///< the first lease that expires makes its task dead, started or not
  extra_connections,        ///< a worker has more connections than it was given
};

const char* to_string(LedgerBug bug);
/// Throws std::invalid_argument for an unknown name.
LedgerBug ledger_bug(std::string_view name);
std::vector<LedgerBug> all_ledger_bugs();

}  // namespace leasehold::testing
