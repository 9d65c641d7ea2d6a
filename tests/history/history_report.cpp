#include "tests/history/history_report.hpp"

#include <algorithm>
#include <sstream>

namespace leasehold::testing {
namespace {

constexpr std::size_t most_explained = 5;
// A fault that is older than this has nothing to do with it any more.
constexpr std::int64_t time_of_interest = 3'000'000'000;

bool is_fault(const Event& event) {
  return event.op == Op::data_loss || event.op == Op::fault || event.op == Op::kill;
}

bool belongs_to(const Event& event, const Violation& violation) {
  if (is_fault(event)) {
    return event.time <= violation.second.time &&
           event.time >= std::min(violation.first.time, violation.second.time) - time_of_interest;
  }
  return event.grant == violation.first.grant || event.grant == violation.second.grant;
}

}  // namespace

std::map<Rule, int> count(const std::vector<Violation>& violations) {
  std::map<Rule, int> counted;
  for (const Violation& violation : violations) ++counted[violation.rule];
  return counted;
}

std::string explain(const std::vector<Violation>& violations, const History& history) {
  std::ostringstream text;
  for (const auto& [rule, times] : count(violations)) {
    text << to_string(rule) << " (" << invariants_of(rule) << "): " << times << "\n";
  }
  for (std::size_t i = 0; i < std::min(violations.size(), most_explained); ++i) {
    const Violation& violation = violations[i];
    text << violation << "\n    all of both, and the faults:\n";
    for (const Event& event : history.events) {
      if (belongs_to(event, violation)) {
        text << "    " << event.place << "  " << to_line(event) << "\n";
      }
    }
  }
  return text.str();
}

std::map<std::string, int> count_outcomes(const History& history) {
  std::map<std::string, int> counted;
  for (const Event& event : history.events) {
    ++counted[std::string(to_string(event.op)) + " " + to_string(event.phase)];
  }
  return counted;
}

std::map<std::string, int> count_errors(const History& history) {
  std::map<std::string, int> counted;
  for (const Event& event : history.events) {
    const bool is_operation = !is_fault(event) && event.op != Op::check;
    if (!is_operation || event.phase == Phase::invoke || event.phase == Phase::ok) continue;
    const std::string why = event.reason.empty() ? to_string(event.phase) : event.reason;
    ++counted[std::string(to_string(event.op)) + " " + why];
  }
  return counted;
}

}  // namespace leasehold::testing
