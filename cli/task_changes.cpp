// leasehold tasks retry and cancel.
#include <iostream>

#include "commands.hpp"
#include "leasehold/errors.hpp"
#include "leasehold/task_queue.hpp"
#include "task_pages.hpp"
#include "task_values.hpp"
#include "text.hpp"

namespace leasehold::cli {
namespace {

using nlohmann::ordered_json;

constexpr TaskState states_to_retry[] = {TaskState::dead, TaskState::cancelled};
constexpr TaskState states_to_cancel[] = {TaskState::pending, TaskState::leased};

/// Which tasks to change: by their ids, or all of a state and type.
struct Selection {
  std::vector<std::string> ids;
  bool all = false;
  std::string state;
  std::string type;
};

/// The outcome for each task that was to be changed.
class Changes {
 public:
  void add(TaskId id, const char* outcome, ExitCode code) {
    ++counts_[outcome];
    if (details_.size() < most_details) details_.emplace_back(id, outcome);
    if (code != ExitCode::done && (worst_ == ExitCode::done || code == ExitCode::failed)) {
      worst_ = code;
    }
  }

  /// Returns the exit code of the command.
  ExitCode print(const Session& session) const {
    if (session.json) {
      Session::print(as_json());
    } else if (counts_.empty()) {
      std::cout << "no such tasks\n";
    } else if (details_.size() <= 20 && details_.size() == total()) {
      for (const auto& [id, outcome] : details_) {
        std::cout << "task " << id << ": " << outcome << "\n";
      }
    } else {
      for (const auto& [outcome, number] : counts_) {
        std::cout << with_commas(number) << " " << outcome << "\n";
      }
    }
    return worst_;
  }

  std::size_t total() const {
    std::size_t sum = 0;
    for (const auto& count : counts_) sum += count.second;
    return sum;
  }

 private:
  ordered_json as_json() const {
    ordered_json tasks = ordered_json::array();
    for (const auto& [id, outcome] : details_) {
      tasks.push_back({{"id", id.value}, {"outcome", outcome}});
    }
    return {{"outcomes", counts_}, {"tasks", tasks}, {"tasks_cut_off", total() > details_.size()}};
  }

  static constexpr std::size_t most_details = 1'000;

  std::map<std::string, std::size_t> counts_;
  std::vector<std::pair<TaskId, std::string>> details_;
  ExitCode worst_ = ExitCode::done;
};

/// How many tasks are selected.
struct Count {
  std::uint64_t number = 0;
  bool more = false;
};

struct Selected {
  const Selection& selection;
  TaskState state;
  Count count;
};

Selected count_selected(TaskQueue& queue, const Selection& selection, TaskState state) {
  if (!selection.all) return {selection, state, {.number = selection.ids.size()}};
  Count sum;
  for (const TaskCount& count : queue.counts()) {
    if (count.state != state || (!selection.type.empty() && count.type != selection.type)) continue;
    sum.number += count.number;
    sum.more = sum.more || count.more;
  }
  return {selection, state, sum};
}

/// For the question: "1 task", "more than 10,000 dead tasks".
std::string words_for(const Selected& selected) {
  const Count& count = selected.count;
  return (count.more ? "more than " : "") + with_commas(count.number) + " " +
         (selected.selection.all ? to_string(selected.state) + std::string(" ") : "") +
         (count.number == 1 && !count.more ? "task" : "tasks");
}

/// Calls `visit(id)` for each selected task. With --all they are listed page by page in the order
/// of their ids, so that no task is visited twice.
template <typename Visit>
void each_selected(TaskQueue& queue, const Selection& selection, TaskState state, Visit visit) {
  if (!selection.all) {
    for (const std::string& id : selection.ids) visit(parse_id(id));
    return;
  }
  TaskFilter filter{.state = state, .limit = all_tasks};
  if (!selection.type.empty()) filter.type = selection.type;
  visit_tasks_without_payloads(queue, filter, [&](const TaskRecord& task) { visit(task.id); });
}

/// Calls `change(id, changes)` for each selected task and prints the outcomes, even if an error
/// ends it early.
template <typename Change>
ExitCode change_selected(Session& session, TaskQueue& queue, const Selected& selected,
                         const char* what, Change change) {
  Changes changes;
  try {
    Progress progress(what, selected.count.more ? 0 : selected.count.number);
    each_selected(queue, selected.selection, selected.state, [&](TaskId id) {
      change(id, changes);
      progress.show(changes.total());
    });
  } catch (const Error& error) {
    if (changes.total() == 0) throw;
    changes.print(session);
    throw failure_in_the_middle(error, with_commas(changes.total()) + " done before this");
  }
  return changes.print(session);
}

void check(const Selection& selection) {
  for (const std::string& id : selection.ids) parse_id(id);  // before any task is changed
  if (selection.all && !selection.ids.empty()) {
    throw InvalidArgument("IDs and --all exclude each other");
  }
  if (!selection.all && selection.ids.empty()) {
    throw Failure(ExitCode::misused, "no task is selected",
                  "Give the ids of tasks, or --all with --state and perhaps --type");
  }
  if (!selection.all && (!selection.state.empty() || !selection.type.empty())) {
    throw InvalidArgument("--state and --type need --all");
  }
}

ExitCode retry(Session& session, const Selection& selection) {
  check(selection);
  const TaskState state =
      selection.state.empty() ? TaskState::dead : parse_state(selection.state, states_to_retry);
  TaskQueue queue = session.stores.tasks();
  const Selected selected = count_selected(queue, selection, state);
  if (selection.all) session.confirm("Retry " + words_for(selected) + "?");
  return change_selected(session, queue, selected, "retrying", [&](TaskId id, Changes& changes) {
    switch (queue.retry(id)) {
      case RetryOutcome::requeued:
        return changes.add(id, "requeued", ExitCode::done);
      case RetryOutcome::not_dead:
        return changes.add(id, "neither dead nor cancelled", ExitCode::failed);
      case RetryOutcome::key_taken:
        return changes.add(id, "another pending or leased task has its unique key",
                           ExitCode::failed);
      case RetryOutcome::not_found:
        return changes.add(id, "not found", ExitCode::not_found);
    }
  });
}

ExitCode cancel(Session& session, const Selection& selection) {
  check(selection);
  const TaskState state =
      selection.state.empty() ? TaskState::pending : parse_state(selection.state, states_to_cancel);
  TaskQueue queue = session.stores.tasks();
  const Selected selected = count_selected(queue, selection, state);
  session.confirm("Cancel " + words_for(selected) + "?");
  return change_selected(session, queue, selected, "cancelling", [&](TaskId id, Changes& changes) {
    switch (queue.cancel(id)) {
      case CancelOutcome::was_pending:
        return changes.add(id, "cancelled", ExitCode::done);
      case CancelOutcome::was_leased:
        return changes.add(id, "cancelled; its worker will notice soon", ExitCode::done);
      case CancelOutcome::finished:
        return changes.add(id, "had already ended", ExitCode::failed);
      case CancelOutcome::not_found:
        return changes.add(id, "not found", ExitCode::not_found);
    }
  });
}

void add_selection(CLI::App& app, const std::shared_ptr<Selection>& selection, const char* states,
                   const char* fallback) {
  add_values(app, "ID", selection->ids, "Ids of tasks", 10'000);
  app.add_flag("--all", selection->all, "Select all tasks of --state and --type")
      ->disable_flag_override();
  add_value(app, "--state", selection->state, "STATE",
            std::string("With --all: ") + states + " [" + fallback + "]");
  add_value(app, "--type", selection->type, "TYPE", "With --all: only tasks of this type");
}

}  // namespace

void add_task_changes(Commands& commands, CLI::App& tasks) {
  auto to_retry = std::make_shared<Selection>();
  add_selection(
      commands.add(
          tasks,
          {.name = "retry",
           .summary = "Requeue dead or cancelled tasks",
           .details = "Makes dead or cancelled tasks pending again, with all their attempts.",
           .examples = "leasehold tasks retry 42 43\n"
                       "leasehold tasks retry --all --state dead --type mail --yes"},
          {.tasks = true, .confirmation = true},
          [to_retry](Session& session) { return retry(session, *to_retry); }),
      to_retry, "dead or cancelled", "dead");

  auto to_cancel = std::make_shared<Selection>();
  add_selection(
      commands.add(
          tasks,
          {.name = "cancel",
           .summary = "Cancel pending or leased tasks",
           .details = "Cancels pending or leased tasks. A worker that has one notices at its "
                      "next renewal or write, which is refused. Cancelled tasks can be "
                      "retried later.",
           .examples = "leasehold tasks cancel 42\n"
                       "leasehold tasks cancel --all --type mail --yes"},
          {.tasks = true, .confirmation = true},
          [to_cancel](Session& session) { return cancel(session, *to_cancel); }),
      to_cancel, "pending or leased", "pending");
}

}  // namespace leasehold::cli
