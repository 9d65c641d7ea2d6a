#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/environment.hpp"
#include "failure.hpp"
#include "help.hpp"
#include "session.hpp"
#include "stores.hpp"

namespace leasehold::cli {

using Run = std::function<ExitCode(Session&)>;

/// Which flags about stores and confirmation a command has.
struct Uses {
  bool locks = false;
  bool tasks = false;
  bool confirmation = false;
};

/// The tree of all commands.
class Commands {
 public:
  Commands();

  CLI::App& root() { return root_; }
  const CLI::App& root() const { return root_; }
  /// Adds a word that commands follow, such as `tasks`. Flags may stand before and after those.
  CLI::App& add_group(CommandText text, Uses uses);
  CLI::App& add(CLI::App& parent, CommandText text, Uses uses, Run run);
  /// Adds a command that the help does not show: for our own processes.
  CLI::App& add_hidden(const std::string& name, Uses uses, Run run);

  const CommandText& text_of(const CLI::App& app) const { return texts_.at(&app); }

  /// Runs the command that the command line names. Errors become exit codes here.
  ExitCode run(int argc, const char* const* argv, const common::Environment& environment);

 private:
  void parse(int argc, const char* const* argv);
  ExitCode run_parsed(const common::Environment& environment);
  void add_common_flags(CLI::App& app, Uses uses);

  CLI::App root_;
  std::map<const CLI::App*, CommandText> texts_;
  std::map<const CLI::App*, Run> runs_;
  std::map<const CLI::App*, Uses> uses_;
  StoreFlags flags_;
  bool json_ = false;
  bool yes_ = false;
  bool version_ = false;
};

/// Adds a flag with a value. All values are read as text: see flag_values.hpp.
CLI::Option* add_value(CLI::App& app, const char* name, std::string& value, const char* type,
                       const std::string& help);
/// Adds a flag or an argument that may have several values.
CLI::Option* add_values(CLI::App& app, const char* name, std::vector<std::string>& values,
                        const std::string& help, int most);

// One for each file of commands.
void add_enqueue(Commands& commands);
void add_status(Commands& commands);
void add_top(Commands& commands);
void add_tasks(Commands& commands);
void add_task_changes(Commands& commands, CLI::App& tasks);  // retry, cancel
void add_task_purge(Commands& commands, CLI::App& tasks);
void add_locks(Commands& commands);
void add_maintenance(Commands& commands);  // migrate, recover
void add_load(Commands& commands);
void add_documentation(Commands& commands);  // completion, man, version
void add_demo(Commands& commands);

}  // namespace leasehold::cli
