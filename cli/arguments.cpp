#include "arguments.hpp"

#include <algorithm>

#include "common/secrets.hpp"
#include "failure.hpp"
#include "help.hpp"
#include "text.hpp"

namespace leasehold::cli {
namespace {

// CLI11 takes a word like [a,b] for a list, unless this character ends it: see escape_lists().
constexpr char no_list = '\x01';

/// The words after the program's name, the last one first, as CLI11 wants them.
std::vector<std::string> escape_lists(int argc, const char* const* argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  for (std::string& word : words) {
    if (word.starts_with('[')) word += no_list;
  }
  std::ranges::reverse(words);
  return words;
}

std::string without_escape(std::string word) {
  if (word.starts_with('[') && word.ends_with(no_list)) word.pop_back();
  return word;
}

/// Has every option of every command remove the escape.
void remove_escapes(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_max() > 0) option->transform(without_escape);
  }
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    remove_escapes(*command);
  }
}

[[noreturn]] void refuse_empty(const std::string& option) {
  throw Failure(ExitCode::misused, option + " has an empty value",
                "Give it a value or leave it out; perhaps a variable of your script is empty");
}

/// CLI11 would take the word after --type= for its value.
void refuse_empty_values(int argc, const char* const* argv) {
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    const std::string_view word = argv[i];
    if (word.starts_with("--") && word.find('=') == word.size() - 1) {
      refuse_empty(common::shown(word));
    }
  }
}

/// An empty value does not count as none: `--type "$T"` would mean all types.
void refuse_empty_values(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional() || option->get_items_expected_max() == 0) continue;
    if (std::ranges::count(option->results(), std::string()) > 0) refuse_empty(option->get_name());
  }
  for (const CLI::App* command : app.get_subcommands()) refuse_empty_values(*command);
}

/// Words that belong nowhere; without --, which only says that no flags follow.
std::vector<std::string> extras_of(const CLI::App& app, bool and_below) {
  std::vector<std::string> extras = app.remaining(and_below);
  std::erase(extras, "--");
  for (std::string& extra : extras) extra = without_escape(std::move(extra));
  return extras;
}

std::vector<std::string> long_flags_of(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : options_of(app)) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

[[noreturn]] void refuse_extra(const CLI::App& app, const std::string& extra) {
  if (extra.starts_with('-')) {
    const std::string flag = extra.substr(0, extra.find('='));
    const std::string close = nearest(flag, long_flags_of(app));
    throw Failure(ExitCode::misused, "unknown flag " + common::shown(flag),
                  close.empty() ? "" : "Did you mean " + close + "?");
  }
  const std::vector<std::string> words = words_below(app);
  if (words.empty()) {
    throw Failure(ExitCode::misused, "one argument too many: " + common::shown(extra));
  }
  const std::string close = nearest(extra, words);
  throw Failure(
      ExitCode::misused, "unknown command " + common::shown(extra),
      close.empty() ? "The commands are " + joined(words, ", ") : "Did you mean " + close + "?");
}

}  // namespace

void parse_arguments(CLI::App& root, int argc, const char* const* argv) {
  refuse_empty_values(argc, argv);
  remove_escapes(root);
  root.parse(escape_lists(argc, argv));
  refuse_empty_values(root);
}

CLI::App& parsed_command(CLI::App& root) {
  CLI::App* app = &root;
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return *app;
}

void refuse_extras(CLI::App& root) {
  const CLI::App& app = parsed_command(root);
  if (const auto extras = extras_of(app, false); !extras.empty()) refuse_extra(app, extras.front());
  // Those before the last word of the command, as in leasehold --bogus status.
  if (const auto extras = extras_of(root, true); !extras.empty()) {
    refuse_extra(root, extras.front());
  }
}

}  // namespace leasehold::cli
