// leasehold tasks: list and show. The commands that change tasks are in task_changes.cpp and
// task_purge.cpp.
#include "task_values.hpp"

#include <iostream>

#include "commands.hpp"
#include "common/iso_time.hpp"
#include "flag_values.hpp"
#include "leasehold/task_queue.hpp"
#include "records.hpp"
#include "task_pages.hpp"
#include "text.hpp"

namespace leasehold::cli {
namespace {

using common::iso_time;
using std::chrono::milliseconds;
using std::chrono::system_clock;

constexpr TaskState all_states[] = {TaskState::pending, TaskState::leased, TaskState::completed,
                                    TaskState::dead, TaskState::cancelled};

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

TaskFilter filter_of(const ListOptions& options) {
  TaskFilter filter;
  if (!options.state.empty()) filter.state = parse_state(options.state, all_states);
  if (!options.type.empty()) filter.type = options.type;
  if (!options.worker.empty()) filter.worker = options.worker;
  filter.after = {parse_number("--after", options.after, 0, largest_id)};
  filter.limit = static_cast<std::size_t>(parse_number("--limit", options.limit, 1, 10'000));
  return filter;
}

Table empty_table() {
  return Table({{"ID", Column::Align::right},
                {"TYPE"},
                {"STATE"},
                {"PRIO", Column::Align::right},
                {"TRIES", Column::Align::right},
                {"CREATED", Column::Align::right},
                {"WORKER"},
                {"LAST ERROR"}});
}

void add_row(Table& table, const TaskRecord& task) {
  table.add({std::to_string(task.id.value),
             task.type,
             {to_string(task.state), colour_of(task.state)},
             std::to_string(task.priority),
             std::to_string(task.attempts) + "/" + std::to_string(task.max_attempts),
             ago(task.created_at),
             task.state == TaskState::leased ? task.leased_by : "",
             {task.last_error, Colour::red}});
}

ExitCode list_as_json(TaskQueue& queue, const TaskFilter& filter) {
  JsonArrayPrinter array;
  visit_tasks(queue, filter, [&](const TaskRecord& task) { array.add(as_json(task)); });
  array.end();
  return ExitCode::done;
}

ExitCode list(Session& session, const ListOptions& options) {
  const TaskFilter filter = filter_of(options);
  TaskQueue queue = session.stores.tasks();
  if (session.json) return list_as_json(queue, filter);
  Table table = empty_table();
  TaskId last;
  const std::size_t number =
      visit_tasks_without_payloads(queue, filter, [&](const TaskRecord& task) {
        add_row(table, task);
        last = task.id;
      });
  if (number == 0) {
    std::cerr << "no such tasks\n";
    return ExitCode::done;
  }
  std::cout << table.render(session.terminal);
  if (number == filter.limit) {
    std::cerr << "there may be more: add --after " << last << "\n";
  }
  return ExitCode::done;
}

Facts facts_of(const TaskRecord& task) {
  Facts facts;
  const auto add_time = [&](const char* name, const auto& time) {
    facts.add(name, iso_time(time) + " (" + ago(time) + ")");
  };
  facts.add("id", std::to_string(task.id.value));
  facts.add("type", task.type);
  facts.add("state", {to_string(task.state), colour_of(task.state)});
  facts.add("version", std::to_string(task.version.value));
  facts.add("priority", std::to_string(task.priority));
  facts.add("attempts", std::to_string(task.attempts) + " of " + std::to_string(task.max_attempts));
  facts.add("crashes", std::to_string(task.crash_count));
  add_time("run at", task.run_at);
  if (!task.leased_by.empty()) facts.add("worker", task.leased_by);
  if (task.leased_at) add_time("leased", *task.leased_at);
  if (task.lease_expiry) add_time("lease until", *task.lease_expiry);
  if (!task.unique_key.empty()) facts.add("unique key", task.unique_key);
  if (!task.last_error.empty()) facts.add("last error", {task.last_error, Colour::red});
  add_time("created", task.created_at);
  add_time("updated", task.updated_at);
  if (task.finished_at) add_time("finished", *task.finished_at);
  facts.add("payload", task.payload);
  if (task.progress) facts.add("progress", *task.progress);
  if (task.result) facts.add("result", *task.result);
  return facts;
}

ExitCode show(Session& session, const std::string& id) {
  const auto task = session.stores.tasks().get(parse_id(id));
  if (!task) throw Failure(ExitCode::not_found, "there is no task " + id);
  if (session.json) {
    Session::print_record(as_json(*task));
  } else {
    std::cout << facts_of(*task).render(session.terminal);
  }
  return ExitCode::done;
}

void add_list(Commands& commands, CLI::App& tasks) {
  auto filter = std::make_shared<ListOptions>();
  CLI::App& app =
      commands.add(tasks,
                   {.name = "list",
                    .summary = "List tasks in order of id",
                    .details = "With --json the array is written while the tasks are read, so that "
                               "a long list needs little memory. If the store fails in the middle, "
                               "the array is not closed and the exit code is not 0.",
                    .examples = "leasehold tasks list --state dead --type mail\n"
                                "leasehold tasks list --worker runner_1_a_7 --state leased\n"
                                "leasehold tasks list --after 5000 --limit 1000 --json"},
                   {.tasks = true}, [filter](Session& session) { return list(session, *filter); });
  add_value(app, "--state", filter->state, "STATE",
            "Only tasks in this state: pending, leased, completed, dead or cancelled");
  add_value(app, "--type", filter->type, "TYPE", "Only tasks of this type");
  add_value(app, "--worker", filter->worker, "NAME",
            "Only tasks that this worker has, or had when they ended");
  add_value(app, "--after", filter->after, "ID", "Only larger ids, for the next page");
  add_value(app, "--limit", filter->limit, "NUMBER", "How many at most, 1 to 10000 [100]");
}

void add_show(Commands& commands, CLI::App& tasks) {
  auto id = std::make_shared<std::string>();
  CLI::App& app = commands.add(
      tasks,
      {.name = "show",
       .summary = "Show everything about a task",
       .details = "",
       .examples = "leasehold tasks show 42\nleasehold tasks show 42 --json | jq .payload"},
      {.tasks = true}, [id](Session& session) { return show(session, *id); });
  app.add_option("ID", *id, "Id of the task")->required();
}

}  // namespace

void add_tasks(Commands& commands) {
  CLI::App& tasks = commands.add_group({.name = "tasks",
                                        .summary = "Show tasks and change them",
                                        .details = "",
                                        .examples = "leasehold tasks list --state dead\n"
                                                    "leasehold tasks show 42\n"
                                                    "leasehold tasks retry 42 43"},
                                       {.tasks = true});
  add_list(commands, tasks);
  add_show(commands, tasks);
  add_task_changes(commands, tasks);
  add_task_purge(commands, tasks);
}

}  // namespace leasehold::cli
