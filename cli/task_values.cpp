#include "task_values.hpp"

#include <vector>

#include "flag_values.hpp"

namespace leasehold::cli {

TaskState parse_state(const std::string& text, std::span<const TaskState> allowed) {
  std::vector<std::string> names;
  for (const TaskState state : allowed) names.emplace_back(to_string(state));
  return allowed[parse_word("--state", text, names)];
}

TaskId parse_id(const std::string& text) { return {parse_number("ID", text, 1, largest_id)}; }

}  // namespace leasehold::cli
