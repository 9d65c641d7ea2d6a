#include "commands.hpp"

#include <algorithm>
#include <iostream>

#include "arguments.hpp"
#include "text.hpp"

namespace leasehold::cli {

Commands::Commands() : root_("", "leasehold") {
  texts_[&root_] = {
      "leasehold", "inspect and repair locks and task leases",
      "Shows the locks and tasks of Leasehold, repairs what went wrong, and demonstrates what "
      "happens when workers are killed.",
      "leasehold demo\n"
      "leasehold status --store sqlite:app.db\n"
      "leasehold enqueue mail --payload '{\"to\":7}' --database postgresql://localhost/app\n"
      "leasehold tasks list --state dead\n"
      "leasehold locks show invoice:42"};
  root_.set_help_flag("-h,--help", "Print this text");
  root_.allow_extras();
  // Inherited by all commands. A second command's name is then an ordinary word.
  root_.require_subcommand(0, 1);
  root_.add_flag("--version", version_, "Print the version")->disable_flag_override();
  add_common_flags(root_, {.locks = true, .tasks = true});
}

void Commands::add_common_flags(CLI::App& app, Uses uses) {
  app.add_flag("--json", json_, "Print JSON; errors too, on standard error")
      ->disable_flag_override();
  if (uses.confirmation) {
    app.add_flag("-y,--yes", yes_, "Do not ask for confirmation; for scripts")
        ->disable_flag_override();
  }
  if (!uses.locks && !uses.tasks) return;
  const auto add = [&](const char* name, std::string& value, const char* type, const char* help) {
    add_value(app, name, value, type, help)->group("Stores");
  };
  if (uses.locks) add("--redis", flags_.redis, "URI", "The Redis that keeps the locks");
  if (uses.tasks) {
    add("--database", flags_.database, "URI", "The PostgreSQL database that keeps the tasks");
    add("--schema", flags_.schema, "NAME", "The schema of its tables [leasehold]");
  }
  add("--store", flags_.store, "sqlite:FILE", "A SQLite file that keeps both locks and tasks");
  add("--config", flags_.config, "FILE", "A config file of leaseholdd that names the stores");
  if (uses.tasks) add("--queue", flags_.queue, "NAME", "Use [queue NAME] of the config file");
}

CLI::App& Commands::add_group(CommandText text, Uses uses) {
  CLI::App& app = *root_.add_subcommand(text.name, text.summary);
  app.set_help_flag("-h,--help", "Print this text");
  // See refuse_extras(): CLI11 would print arguments that may contain passwords.
  app.allow_extras();
  add_common_flags(app, uses);
  texts_[&app] = std::move(text);
  return app;
}

CLI::App& Commands::add(CLI::App& parent, CommandText text, Uses uses, Run run) {
  CLI::App& app = *parent.add_subcommand(text.name, text.summary);
  app.set_help_flag("-h,--help", "Print this text");
  app.allow_extras();
  add_common_flags(app, uses);
  texts_[&app] = std::move(text);
  runs_[&app] = std::move(run);
  uses_[&app] = uses;
  return app;
}

CLI::App& Commands::add_hidden(const std::string& name, Uses uses, Run run) {
  CLI::App& app =
      add(root_, {.name = name, .summary = "For our own processes"}, uses, std::move(run));
  app.group("");
  return app;
}

CLI::Option* add_value(CLI::App& app, const char* name, std::string& value, const char* type,
                       const std::string& help) {
  return app.add_option(name, value, help)->type_name(type);
}

CLI::Option* add_values(CLI::App& app, const char* name, std::vector<std::string>& values,
                        const std::string& help, int most) {
  return app.add_option(name, values, help)
      ->expected(1, most)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

ExitCode Commands::run(int argc, const char* const* argv, const common::Environment& environment) {
  try {
    parse(argc, argv);
    const ExitCode code = run_parsed(environment);
    if (!std::cout.flush()) throw Failure(ExitCode::failed, "cannot write to standard output");
    return code;
  } catch (const CLI::CallForHelp&) {
    const TextOf text = [this](const CLI::App& app) -> const CommandText& { return text_of(app); };
    std::cout << render_help(parsed_command(root_), text) << std::flush;
    return ExitCode::done;
  } catch (const CLI::ParseError& error) {
    return report({ExitCode::misused, error.what()}, command_line_of(parsed_command(root_)), json_);
  } catch (const std::exception& error) {
    std::cout.flush();
    return report(as_failure(error), command_line_of(parsed_command(root_)), json_);
  }
}

void Commands::parse(int argc, const char* const* argv) {
  try {
    parse_arguments(root_, argc, argv);
  } catch (...) {
    // The flags may not have been read yet.
    json_ = std::find(argv, argv + argc, std::string_view("--json")) != argv + argc;
    throw;
  }
}

ExitCode Commands::run_parsed(const common::Environment& environment) {
  refuse_extras(root_);
  if (version_) {
    Session::print_version(json_);
    return ExitCode::done;
  }
  const CLI::App& app = parsed_command(root_);
  const auto found = runs_.find(&app);
  if (found == runs_.end()) {
    throw Failure(ExitCode::misused, "a command is missing after " + command_line_of(app),
                  "The commands are " + joined(words_below(app), ", "));
  }
  // A command without stores must work even if the config file is broken.
  const Uses& uses = uses_.at(&app);
  const Stores stores = uses.locks || uses.tasks ? Stores(flags_, environment) : Stores();
  Session session{stores, json_, yes_, {}};
  return found->second(session);
}

}  // namespace leasehold::cli
