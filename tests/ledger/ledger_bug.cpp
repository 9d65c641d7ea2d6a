#include "tests/ledger/ledger_bug.hpp"

#include <stdexcept>
#include <string>

namespace leasehold::testing {

const char* to_string(LedgerBug bug) {
  switch (bug) {
    case LedgerBug::none:
      break;
    case LedgerBug::effect_outside:
      return "effect_outside";
    case LedgerBug::effect_after_completion:
      return "effect_after_completion";
    case LedgerBug::unguarded_effect:
      return "unguarded_effect";
    case LedgerBug::prefetched_count:
      return "prefetched_count";
    case LedgerBug::convict_innocent:
      return "convict_innocent";
    case LedgerBug::extra_connections:
      return "extra_connections";
  }
  return "none";
}

std::vector<LedgerBug> all_ledger_bugs() {
  return {LedgerBug::effect_outside,   LedgerBug::effect_after_completion,
          LedgerBug::unguarded_effect, LedgerBug::prefetched_count,
          LedgerBug::convict_innocent, LedgerBug::extra_connections};
}

LedgerBug ledger_bug(std::string_view name) {
  if (name == to_string(LedgerBug::none)) return LedgerBug::none;
  for (const LedgerBug bug : all_ledger_bugs()) {
    if (name == to_string(bug)) return bug;
  }
  throw std::invalid_argument("no planted bug is called " + std::string(name));
}

}  // namespace leasehold::testing
