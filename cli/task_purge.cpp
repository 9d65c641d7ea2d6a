// leasehold tasks purge.
#include <iostream>

#include "commands.hpp"
#include "flag_values.hpp"
#include "leasehold/errors.hpp"
#include "leasehold/task_queue.hpp"
#include "task_values.hpp"
#include "text.hpp"

namespace leasehold::cli {
namespace {

using namespace std::chrono_literals;

constexpr TaskState states_to_purge[] = {TaskState::completed, TaskState::cancelled,
                                         TaskState::dead};
constexpr std::uint64_t step = 10'000;

struct PurgeOptions {
  std::vector<std::string> states;
  std::string older_than;
};

/// What to remove, and the names of the states for the question.
struct Plan {
  Removal removal;
  std::string states;
};

Plan plan_of(const PurgeOptions& options) {
  if (options.states.empty()) {
    throw Failure(
        ExitCode::misused, "no --state is given",
        "Say which tasks to delete: --state completed, --state cancelled or --state dead");
  }
  const auto age = parse_duration("--older-than", options.older_than, 0ms, ten_years);
  Plan plan;
  for (const std::string& text : options.states) {
    const TaskState state = parse_state(text, states_to_purge);
    auto& member = state == TaskState::completed   ? plan.removal.completed
                   : state == TaskState::cancelled ? plan.removal.cancelled
                                                   : plan.removal.dead;
    if (!member) plan.states += (plan.states.empty() ? "" : " and ") + text;
    member = age;
  }
  plan.removal.limit = step;
  return plan;
}

/// Returns how many were removed.
std::uint64_t remove_in_steps(TaskQueue& queue, const Removal& removal) {
  std::uint64_t removed = 0;
  try {
    Progress progress("deleting", 0);  // how many are old enough is unknown
    // It can be more than were asked for: days are dropped as a whole.
    for (std::uint64_t now = step; now >= step;) {
      now = queue.remove_finished(removal);
      removed += now;
      progress.show(removed);
    }
  } catch (const Error& error) {
    if (removed == 0) throw;
    throw failure_in_the_middle(error, with_commas(removed) + " deleted before this");
  }
  return removed;
}

ExitCode purge(Session& session, const PurgeOptions& options) {
  const Plan plan = plan_of(options);
  TaskQueue queue = session.stores.tasks();
  session.confirm("Delete the " + plan.states + " tasks that ended more than " +
                  options.older_than + " ago from " + queue.where() + "?");
  const std::uint64_t removed = remove_in_steps(queue, plan.removal);
  if (session.json) {
    Session::print({{"removed", removed}});
  } else {
    std::cout << with_commas(removed) << " tasks deleted\n";
  }
  return ExitCode::done;
}

}  // namespace

void add_task_purge(Commands& commands, CLI::App& tasks) {
  auto options = std::make_shared<PurgeOptions>();
  CLI::App& app = commands.add(
      tasks,
      {.name = "purge",
       .summary = "Delete old finished tasks",
       .details = "Deletes finished tasks for good, in small steps that do not disturb workers. "
                  "leaseholdd does the same by its retain-… settings.",
       .examples = "leasehold tasks purge --state completed --older-than 7d\n"
                   "leasehold tasks purge --state dead --state cancelled --older-than 30d --yes"},
      {.tasks = true, .confirmation = true},
      [options](Session& session) { return purge(session, *options); });
  add_values(app, "--state", options->states,
             "Delete tasks in this state: completed, cancelled or dead; repeatable", 1)
      ->type_name("STATE");
  add_value(app, "--older-than", options->older_than, "TIME",
            "Delete tasks that ended longer ago than this, like 12h or 7d")
      ->required();
}

}  // namespace leasehold::cli
