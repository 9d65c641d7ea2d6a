#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exit_code.hpp"
#include "stores.hpp"
#include "terminal.hpp"

namespace leasehold::cli {

/// What a command works with.
struct Session {
  const Stores& stores;
  bool json = false;  ///< the answer is for a program
  bool yes = false;   ///< the user has confirmed beforehand
  Terminal terminal;

  /// Asks whether to go on. Throws Failure if the answer is no, or if there is nobody to ask.
  void confirm(const std::string& question) const;
  /// Writes an object to standard output.
  static void print(const nlohmann::ordered_json& json);
  static void print_version(bool json);
};

using Run = std::function<ExitCode(Session&)>;

/// The words of a command: for --help, the manual and the shell's completion.
struct CommandText {
  std::string name;
  std::string summary;   ///< a line
  std::string details;   ///< paragraphs; may be empty
  std::string examples;  ///< a line each; may be empty
};

/// Which flags about stores and confirmation a command has.
struct Uses {
  bool locks = false;
  bool tasks = false;
  bool confirmation = false;
};

/// All commands. CLI11 reads the command line; the help is our own, so that it fits on 80 columns
/// and is the manual's text too.
class Commands {
 public:
  Commands();

  CLI::App& root() { return root_; }
  const CLI::App& root() const { return root_; }
  /// A word that others follow, such as `tasks`. Flags may stand before and behind those.
  CLI::App& add_group(CommandText text, Uses uses);
  CLI::App& add(CLI::App& parent, CommandText text, Uses uses, Run run);
  /// Not shown: for our own processes.
  CLI::App& add_hidden(const std::string& name, Uses uses, Run run);

  const CommandText& text_of(const CLI::App& app) const { return texts_.at(&app); }
  std::string help(const CLI::App& app) const;

  /// Runs what the command line says. Errors become exit codes here.
  ExitCode run(int argc, const char* const* argv, const Environment& environment);

 private:
  void parse(int argc, const char* const* argv);
  ExitCode run_parsed(const Environment& environment);
  void add_store_flags(CLI::App& app, Uses uses);

  CLI::App root_;
  std::map<const CLI::App*, CommandText> texts_;
  std::map<const CLI::App*, Run> runs_;
  std::map<const CLI::App*, Uses> uses_;
  StoreFlags flags_;
  bool json_ = false;
  bool yes_ = false;
  bool version_ = false;
};

/// The shown commands below this one, and how they are called: "tasks list".
std::vector<const CLI::App*> commands_below(const CLI::App& app);
std::string name_of(const CLI::App& app);
/// The flags and arguments of a command that are shown; without --help.
std::vector<const CLI::Option*> options_of(const CLI::App& app);
/// As it is written: "--limit NUMBER", "ID...".
std::string usage_of(const CLI::Option& option);

/// An error as it is told: with an exit code, and a hint.
Failure as_failure(const std::exception& error);
/// The same for a command of several steps, of which some had been taken. `done` tells of them.
Failure failure_in_the_middle(const std::exception& error, const std::string& done);

// Values of flags, which are all read as text: a password in the wrong place must not be part of a
// message. Each throws InvalidArgument, naming the flag, the value and what is allowed.
std::int64_t parse_number(const std::string& flag, const std::string& text, std::int64_t least,
                          std::int64_t most);
std::chrono::milliseconds parse_duration(const std::string& flag, const std::string& text,
                                         std::chrono::milliseconds least,
                                         std::chrono::milliseconds most);

/// Longest time that a flag can name.
inline constexpr std::chrono::milliseconds ten_years = std::chrono::hours{24 * 3653};

// One for each file of commands.
void add_enqueue(Commands& commands);
void add_status(Commands& commands);
void add_top(Commands& commands);
void add_tasks(Commands& commands);
void add_locks(Commands& commands);
void add_maintenance(Commands& commands);  // migrate, recover
void add_load(Commands& commands);
void add_documentation(Commands& commands);  // completion, man, version
void add_demo(Commands& commands);

}  // namespace leasehold::cli
