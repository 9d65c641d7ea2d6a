#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/history/history_checker.hpp"

namespace leasehold::testing {

std::map<Rule, int> count(const std::vector<Violation>& violations);

/// How many of each rule; then the first few, with everything that happened to both grants, and the
/// faults shortly before.
std::string explain(const std::vector<Violation>& violations, const History& history);

/// How often each operation ended how, by names such as "acquire ok" and "release lost".
std::map<std::string, int> count_outcomes(const History& history);

/// How often what did not succeed failed why, by names such as "acquire busy" and "extend expired".
std::map<std::string, int> count_errors(const History& history);

}  // namespace leasehold::testing
