#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace leasehold::cli {

/// The words of a command: for --help, the manual and the shell's completion.
struct CommandText {
  std::string name;
  std::string summary;   ///< one line
  std::string details;   ///< paragraphs; may be empty
  std::string examples;  ///< one a line; may be empty
};

/// Finds the text of a command.
using TextOf = std::function<const CommandText&(const CLI::App&)>;

/// The help of a command. It is our own, not CLI11's, so that it fits on 80 columns and can be the
/// text of the manual too.
std::string render_help(const CLI::App& app, const TextOf& text_of);

/// The visible commands below this one, at any depth.
std::vector<const CLI::App*> commands_below(const CLI::App& app);
/// The words directly below this one, such as `list` and `show`.
std::vector<std::string> words_below(const CLI::App& app);
/// How a command is called: "tasks list"; empty for the program itself.
std::string name_of(const CLI::App& app);
/// With the name of the program: "leasehold tasks list".
std::string command_line_of(const CLI::App& app);
/// The visible flags and arguments of a command, without --help.
std::vector<const CLI::Option*> options_of(const CLI::App& app);
/// An option as it is written: "--limit NUMBER", "ID...".
std::string usage_of(const CLI::Option& option);

}  // namespace leasehold::cli
