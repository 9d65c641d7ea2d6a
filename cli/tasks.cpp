// leasehold tasks: list, show, retry, cancel, purge.
#include <iostream>
#include <span>

#include "commands.hpp"
#include "leasehold/errors.hpp"
#include "leasehold/task_queue.hpp"
#include "records.hpp"
#include "text.hpp"
#include "worker/secrets.hpp"

namespace leasehold::cli {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;
using std::chrono::system_clock;

constexpr TaskState all_states[] = {TaskState::pending, TaskState::leased, TaskState::completed,
                                    TaskState::dead, TaskState::cancelled};
constexpr TaskState states_to_retry[] = {TaskState::dead, TaskState::cancelled};
constexpr TaskState states_to_cancel[] = {TaskState::pending, TaskState::leased};
constexpr TaskState states_to_purge[] = {TaskState::completed, TaskState::cancelled,
                                         TaskState::dead};
constexpr std::size_t page = 1'000;

TaskState state_of(const std::string& text, std::span<const TaskState> allowed) {
  std::string names;
  for (const TaskState state : allowed) {
    if (text == to_string(state)) return state;
    names += (names.empty() ? "" : ", ") + std::string(to_string(state));
  }
  throw InvalidArgument("--state of " + worker::shown(text) + ": allowed are " + names);
}

TaskId id_of(const std::string& text) {
  return {parse_number("ID", text, 1, std::numeric_limits<std::int64_t>::max())};
}

std::string ago(system_clock::time_point time) {
  const auto age = std::chrono::duration_cast<milliseconds>(system_clock::now() - time);
  return age < milliseconds{0} ? "in " + brief(-age) : brief(age) + " ago";
}

struct ListOptions {
  std::string state;
  std::string type;
  std::string worker;
  std::string after = "0";
  std::string limit = "100";
};

ExitCode list(Session& session, const ListOptions& options) {
  TaskFilter filter;
  if (!options.state.empty()) {
    filter.state = state_of(options.state, all_states);
  }
  if (!options.type.empty()) filter.type = options.type;
  if (!options.worker.empty()) filter.worker = options.worker;
  filter.after = {
      parse_number("--after", options.after, 0, std::numeric_limits<std::int64_t>::max())};
  filter.limit = static_cast<std::size_t>(parse_number("--limit", options.limit, 1, 10'000));
  const std::vector<TaskRecord> tasks = session.stores.tasks().list(filter);
  if (session.json) {
    ordered_json array = ordered_json::array();
    for (const TaskRecord& task : tasks) array.push_back(as_json(task));
    Session::print(array);
    return ExitCode::done;
  }
  Table table({{"ID", Column::Align::right},
               {"TYPE"},
               {"STATE"},
               {"PRIO", Column::Align::right},
               {"TRIES", Column::Align::right},
               {"CREATED", Column::Align::right},
               {"WORKER"},
               {"LAST ERROR"}});
  for (const TaskRecord& task : tasks) {
    table.add({std::to_string(task.id.value),
               task.type,
               {to_string(task.state), colour_of(task.state)},
               std::to_string(task.priority),
               std::to_string(task.attempts) + "/" + std::to_string(task.max_attempts),
               ago(task.created_at),
               task.state == TaskState::leased ? task.leased_by : "",
               {task.last_error, Colour::red}});
  }
  if (tasks.empty()) {
    std::cerr << "no such tasks\n";
    return ExitCode::done;
  }
  std::cout << table.render(session.terminal);
  if (tasks.size() == filter.limit) {
    std::cerr << "there may be more: --after " << tasks.back().id << "\n";
  }
  return ExitCode::done;
}

ExitCode show(Session& session, const std::string& id) {
  const auto task = session.stores.tasks().get(id_of(id));
  if (!task) throw Failure(ExitCode::not_found, "there is no task " + id);
  if (session.json) {
    Session::print(as_json(*task));
    return ExitCode::done;
  }
  Facts facts;
  const auto add_time = [&](const char* name, const auto& time) {
    facts.add(name, iso_time(time) + " (" + ago(time) + ")");
  };
  facts.add("id", std::to_string(task->id.value));
  facts.add("type", task->type);
  facts.add("state", {to_string(task->state), colour_of(task->state)});
  facts.add("version", std::to_string(task->version.value));
  facts.add("priority", std::to_string(task->priority));
  facts.add("attempts",
            std::to_string(task->attempts) + " of " + std::to_string(task->max_attempts));
  facts.add("crashes", std::to_string(task->crash_count));
  add_time("run at", task->run_at);
  if (!task->leased_by.empty()) facts.add("worker", task->leased_by);
  if (task->lease_expiry) add_time("lease until", *task->lease_expiry);
  if (!task->unique_key.empty()) facts.add("unique key", task->unique_key);
  if (!task->last_error.empty()) facts.add("last error", {task->last_error, Colour::red});
  add_time("created", task->created_at);
  add_time("updated", task->updated_at);
  if (task->finished_at) add_time("finished", *task->finished_at);
  facts.add("payload", task->payload);
  if (task->progress) facts.add("progress", *task->progress);
  if (task->result) facts.add("result", *task->result);
  std::cout << facts.render(session.terminal);
  return ExitCode::done;
}

/// Which tasks to change: by their ids, or all of a state and type.
struct Selection {
  std::vector<std::string> ids;
  bool all = false;
  std::string state;
  std::string type;
};

/// What became of each task that was to be changed.
class Changes {
 public:
  void add(TaskId id, const char* outcome, ExitCode code) {
    ++counts_[outcome];
    if (details_.size() < most_details) details_.emplace_back(id, outcome);
    if (code != ExitCode::done && (worst_ == ExitCode::done || code == ExitCode::failed)) {
      worst_ = code;
    }
  }

  ExitCode tell(const Session& session) const {
    if (session.json) {
      ordered_json object{{"outcomes", counts_}, {"tasks", ordered_json::array()}};
      for (const auto& [id, outcome] : details_) {
        object["tasks"].push_back({{"id", id.value}, {"outcome", outcome}});
      }
      object["tasks_cut_off"] = total() > details_.size();
      Session::print(object);
    } else if (details_.size() <= 20 && details_.size() == total()) {
      for (const auto& [id, outcome] : details_)
        std::cout << "task " << id << ": " << outcome << "\n";
    } else {
      for (const auto& [outcome, number] : counts_) {
        std::cout << with_commas(number) << " " << outcome << "\n";
      }
    }
    if (counts_.empty() && !session.json) std::cout << "no such tasks\n";
    return worst_;
  }

  std::size_t total() const {
    std::size_t sum = 0;
    for (const auto& count : counts_) sum += count.second;
    return sum;
  }

 private:
  static constexpr std::size_t most_details = 1'000;

  std::map<std::string, std::size_t> counts_;
  std::vector<std::pair<TaskId, std::string>> details_;
  ExitCode worst_ = ExitCode::done;
};

/// How many tasks a selection means.
struct Count {
  std::uint64_t number = 0;
  bool more = false;
};

Count count_selected(TaskQueue& queue, const Selection& selection, TaskState state) {
  if (!selection.all) return {.number = selection.ids.size()};
  Count sum;
  for (const TaskCount& count : queue.counts()) {
    if (count.state != state || (!selection.type.empty() && count.type != selection.type)) continue;
    sum.number += count.number;
    sum.more = sum.more || count.more;
  }
  return sum;
}

/// For the question: "1 task", "more than 10,000 dead tasks".
std::string words_for(const Count& count, const Selection& selection, TaskState state) {
  return (count.more ? "more than " : "") + with_commas(count.number) + " " +
         (selection.all ? to_string(state) + std::string(" ") : "") +
         (count.number == 1 && !count.more ? "task" : "tasks");
}

/// Calls `visit(id)` for each selected task. Those of a state are listed page by page, from the
/// beginning to the end of the ids: what a change adds behind is not met.
template <typename Visit>
void each_selected(TaskQueue& queue, const Selection& selection, TaskState state, Visit visit) {
  if (!selection.all) {
    for (const std::string& id : selection.ids) visit(id_of(id));
    return;
  }
  TaskFilter filter{.state = state, .limit = page};
  if (!selection.type.empty()) filter.type = selection.type;
  while (true) {
    const auto tasks = queue.list(filter);
    for (const TaskRecord& task : tasks) visit(task.id);
    if (tasks.size() < page) return;
    filter.after = tasks.back().id;
  }
}

/// Calls `change(id)`, which adds to `changes`, for each selected task, and tells of them; also of
/// those before an error.
template <typename Change>
ExitCode change_selected(Session& session, TaskQueue& queue, const Selection& selection,
                         TaskState state, const Count& count, const char* what, Changes& changes,
                         Change change) {
  try {
    Progress progress(what, count.more ? 0 : count.number);
    each_selected(queue, selection, state, [&](TaskId id) {
      change(id);
      progress.show(changes.total());
    });
  } catch (const Error& error) {
    if (changes.total() == 0) throw;
    changes.tell(session);
    throw failure_in_the_middle(error, with_commas(changes.total()) + " done before this");
  }
  return changes.tell(session);
}

void check(const Selection& selection) {
  for (const std::string& id : selection.ids) id_of(id);  // before the first one is changed
  if (selection.all && !selection.ids.empty()) {
    throw InvalidArgument("IDs and --all exclude each other");
  }
  if (!selection.all && selection.ids.empty()) {
    throw Failure(ExitCode::misused, "no task is named",
                  "Name the ids of tasks, or --all with --state and perhaps --type");
  }
  if (!selection.all && (!selection.state.empty() || !selection.type.empty())) {
    throw InvalidArgument("--state and --type are for --all");
  }
}

ExitCode retry(Session& session, const Selection& selection) {
  check(selection);
  const TaskState state =
      selection.state.empty() ? TaskState::dead : state_of(selection.state, states_to_retry);
  TaskQueue queue = session.stores.tasks();
  const Count count = count_selected(queue, selection, state);
  if (selection.all) session.confirm("Retry " + words_for(count, selection, state) + "?");
  Changes changes;
  return change_selected(
      session, queue, selection, state, count, "retrying", changes, [&](TaskId id) {
        switch (queue.retry(id)) {
          case RetryOutcome::requeued:
            return changes.add(id, "requeued", ExitCode::done);
          case RetryOutcome::not_dead:
            return changes.add(id, "neither dead nor cancelled", ExitCode::failed);
          case RetryOutcome::key_taken:
            return changes.add(id, "another living task has its unique key", ExitCode::failed);
          case RetryOutcome::not_found:
            return changes.add(id, "not found", ExitCode::not_found);
        }
      });
}

ExitCode cancel(Session& session, const Selection& selection) {
  check(selection);
  const TaskState state =
      selection.state.empty() ? TaskState::pending : state_of(selection.state, states_to_cancel);
  TaskQueue queue = session.stores.tasks();
  const Count count = count_selected(queue, selection, state);
  session.confirm("Cancel " + words_for(count, selection, state) + "?");
  Changes changes;
  return change_selected(
      session, queue, selection, state, count, "cancelling", changes, [&](TaskId id) {
        switch (queue.cancel(id)) {
          case CancelOutcome::was_pending:
            return changes.add(id, "cancelled", ExitCode::done);
          case CancelOutcome::was_leased:
            return changes.add(id, "cancelled; its worker learns of it soon", ExitCode::done);
          case CancelOutcome::finished:
            return changes.add(id, "had ended before", ExitCode::failed);
          case CancelOutcome::not_found:
            return changes.add(id, "not found", ExitCode::not_found);
        }
      });
}

struct PurgeOptions {
  std::vector<std::string> states;
  std::string older_than;
};

ExitCode purge(Session& session, const PurgeOptions& options) {
  if (options.states.empty()) {
    throw Failure(ExitCode::misused, "no --state is named",
                  "Name what to delete: --state completed, --state cancelled, --state dead");
  }
  const milliseconds age =
      parse_duration("--older-than", options.older_than, milliseconds{0}, ten_years);
  Removal removal;
  std::string names;
  for (const std::string& text : options.states) {
    const TaskState state = state_of(text, states_to_purge);
    auto& member = state == TaskState::completed   ? removal.completed
                   : state == TaskState::cancelled ? removal.cancelled
                                                   : removal.dead;
    if (!member) names += (names.empty() ? "" : " and ") + text;
    member = age;
  }
  TaskQueue queue = session.stores.tasks();
  session.confirm("Delete the " + names + " tasks that ended more than " + options.older_than +
                  " ago from " + queue.where() + "?");
  constexpr std::uint64_t step = 10'000;
  removal.limit = step;
  std::uint64_t removed = 0;
  try {
    Progress progress("deleting", 0);  // nobody has counted how many are so old
    std::uint64_t now = step;
    while (now == step) {
      now = queue.remove_finished(removal);
      removed += now;
      progress.show(removed);
    }
  } catch (const Error& error) {
    if (removed == 0) throw;
    throw failure_in_the_middle(error, with_commas(removed) + " deleted before this");
  }
  if (session.json) {
    Session::print({{"removed", removed}});
  } else {
    std::cout << with_commas(removed) << " tasks deleted\n";
  }
  return ExitCode::done;
}

void add_selection(CLI::App& app, const std::shared_ptr<Selection>& selection, const char* states,
                   const char* fallback) {
  app.add_option("ID", selection->ids, "Tasks, by their ids")
      ->expected(1, 10'000)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag("--all", selection->all, "All tasks of --state and --type")->disable_flag_override();
  app.add_option("--state", selection->state,
                 std::string("With --all: ") + states + " [" + fallback + "]")
      ->type_name("STATE");
  app.add_option("--type", selection->type, "With --all: of this type only")->type_name("TYPE");
}

}  // namespace

void add_tasks(Commands& commands) {
  CLI::App& tasks = commands.add_group({.name = "tasks",
                                        .summary = "Look at tasks and change them",
                                        .details = "",
                                        .examples = "leasehold tasks list --state dead\n"
                                                    "leasehold tasks show 42\n"
                                                    "leasehold tasks retry 42 43"},
                                       {.tasks = true});

  auto filter = std::make_shared<ListOptions>();
  CLI::App& list_app =
      commands.add(tasks,
                   {.name = "list",
                    .summary = "Tasks in order of id",
                    .details = "",
                    .examples = "leasehold tasks list --state dead --type mail\n"
                                "leasehold tasks list --worker runner_1_a_7 --state leased\n"
                                "leasehold tasks list --after 5000 --limit 1000 --json"},
                   {.tasks = true}, [filter](Session& session) { return list(session, *filter); });
  list_app.add_option("--state", filter->state, "pending, leased, completed, dead or cancelled")
      ->type_name("STATE");
  list_app.add_option("--type", filter->type, "Of this type")->type_name("TYPE");
  list_app.add_option("--worker", filter->worker, "That this worker has, or had at the end")
      ->type_name("NAME");
  list_app.add_option("--after", filter->after, "With larger ids: the next page")->type_name("ID");
  list_app.add_option("--limit", filter->limit, "1 to 10000 at most [100]")->type_name("NUMBER");

  auto id = std::make_shared<std::string>();
  CLI::App& show_app = commands.add(
      tasks,
      {.name = "show",
       .summary = "Everything about a task",
       .details = "",
       .examples = "leasehold tasks show 42\nleasehold tasks show 42 --json | jq .payload"},
      {.tasks = true}, [id](Session& session) { return show(session, *id); });
  show_app.add_option("ID", *id, "The task")->required();

  auto to_retry = std::make_shared<Selection>();
  add_selection(
      commands.add(tasks,
                   {.name = "retry",
                    .summary = "Give dead or cancelled tasks all their attempts again",
                    .details = "",
                    .examples = "leasehold tasks retry 42 43\n"
                                "leasehold tasks retry --all --state dead --type mail --yes"},
                   {.tasks = true, .confirmation = true},
                   [to_retry](Session& session) { return retry(session, *to_retry); }),
      to_retry, "dead or cancelled", "dead");

  auto to_cancel = std::make_shared<Selection>();
  add_selection(
      commands.add(tasks,
                   {.name = "cancel",
                    .summary = "Call tasks off that are pending or leased",
                    .details = "Calls tasks off. A worker that has one learns of it with its next "
                               "renewal or write, which is refused. They can be retried later.",
                    .examples = "leasehold tasks cancel 42\n"
                                "leasehold tasks cancel --all --type mail --yes"},
                   {.tasks = true, .confirmation = true},
                   [to_cancel](Session& session) { return cancel(session, *to_cancel); }),
      to_cancel, "pending or leased", "pending");

  auto to_purge = std::make_shared<PurgeOptions>();
  CLI::App& purge_app = commands.add(
      tasks,
      {.name = "purge",
       .summary = "Delete tasks that ended long ago",
       .details = "Deletes tasks that ended, for ever, in small steps that disturb nobody. "
                  "leaseholdd does this by itself by its retain-… settings.",
       .examples = "leasehold tasks purge --state completed --older-than 7d\n"
                   "leasehold tasks purge --state dead --state cancelled --older-than 30d --yes"},
      {.tasks = true, .confirmation = true},
      [to_purge](Session& session) { return purge(session, *to_purge); });
  purge_app.add_option("--state", to_purge->states, "completed, cancelled or dead; repeatable")
      ->type_name("STATE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  purge_app.add_option("--older-than", to_purge->older_than, "Ended this long ago, like 12h or 7d")
      ->type_name("TIME")
      ->required();
}

}  // namespace leasehold::cli
