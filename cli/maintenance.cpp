// leasehold migrate and recover.
#include <iostream>

#include "commands.hpp"
#include "flag_values.hpp"
#include "leasehold/migrate.hpp"
#include "leasehold/recovery.hpp"
#include "table.hpp"
#include "text.hpp"

namespace leasehold::cli {
namespace {

using nlohmann::ordered_json;

ExitCode migrate_store(Session& session) {
  const MigrateReport report =
      migrate(session.stores.task_uri(), {.schema = session.stores.schema()});
  if (session.json) {
    Session::print({{"from", report.from}, {"to", report.to}, {"applied", report.applied}});
    return ExitCode::done;
  }
  for (const std::string& name : report.applied) std::cout << "applied " << name << "\n";
  std::cout << (report.applied.empty() ? "nothing to do: " : "done: ")
            << "the tables are at version " << report.to << "\n";
  return ExitCode::done;
}

struct RecoverOptions {
  bool once = false;
  std::string max_crashes = "3";
};

void print(const Session& session, const RecoveryReport& report) {
  if (session.json) {
    ordered_json tasks = ordered_json::array();
    for (const RecoveredTask& task : report.tasks) {
      tasks.push_back({{"id", task.id.value},
                       {"type", task.type},
                       {"state", to_string(task.state)},
                       {"worker", task.worker},
                       {"overdue_ms", task.overdue.count()},
                       {"crash_count", task.crash_count}});
    }
    Session::print({{"requeued", report.requeued}, {"dead", report.dead}, {"tasks", tasks}});
    return;
  }
  if (!report.tasks.empty()) {
    Table table({{"ID", Column::Align::right},
                 {"TYPE"},
                 {"STATE"},
                 {"OVERDUE", Column::Align::right},
                 {"CRASHES", Column::Align::right},
                 {"WORKER"}});
    for (const RecoveredTask& task : report.tasks) {
      table.add({std::to_string(task.id.value), task.type, to_string(task.state),
                 brief(task.overdue), std::to_string(task.crash_count), task.worker});
    }
    std::cout << table.render(session.terminal);
  }
  std::cout << with_commas(report.requeued) << " requeued, " << with_commas(report.dead)
            << " dead\n";
}

ExitCode recover(Session& session, const RecoverOptions& options) {
  if (!options.once) {
    throw Failure(ExitCode::misused, "recover needs --once",
                  "leasehold recovers once; leaseholdd does it again and again");
  }
  const auto max_crashes =
      static_cast<int>(parse_number("--max-crashes", options.max_crashes, 1, 1'000'000));
  TaskQueue queue = session.stores.tasks();
  const RecoveryReport report = Recovery{queue, {.max_crashes = max_crashes}}.run_once();
  print(session, report);
  return ExitCode::done;
}

}  // namespace

void add_maintenance(Commands& commands) {
  commands.add(commands.root(),
               {.name = "migrate",
                .summary = "Create the tables for tasks, or update them",
                .details = "Creates the tables for tasks, or updates them to the version that this "
                           "program needs, in one transaction. Does nothing if they are up to "
                           "date. Locks need no migration.",
                .examples = "leasehold migrate --database postgresql://app@db.example/app\n"
                            "leasehold migrate --store sqlite:app.db"},
               {.tasks = true}, migrate_store);

  auto options = std::make_shared<RecoverOptions>();
  CLI::App& app = commands.add(
      commands.root(),
      {.name = "recover",
       .summary = "Recover the expired leases of crashed workers, once",
       .details =
           "Tasks whose lease has expired become pending again, or dead if they crashed their "
           "worker too often. This command does it once; workers and leaseholdd do it all the "
           "time.",
       .examples = "leasehold recover --once\nleasehold recover --once --max-crashes 5 --json"},
      {.tasks = true}, [options](Session& session) { return recover(session, *options); });
  app.add_flag("--once", options->once, "Recover once, and print what was done")
      ->disable_flag_override();
  add_value(app, "--max-crashes", options->max_crashes, "NUMBER",
            "A task is dead once it has crashed its worker this many times [3]");
}

}  // namespace leasehold::cli
