#include "help.hpp"

#include <map>

#include "failure.hpp"
#include "stores.hpp"
#include "text.hpp"

namespace leasehold::cli {
namespace {

constexpr std::size_t page_width = 80;
constexpr std::size_t option_width = 26;

bool is_visible(const CLI::App& app) { return !app.get_group().empty(); }

std::vector<const CLI::App*> children_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* child) { return is_visible(*child); });
}

std::string two_columns(const std::string& left, const std::string& right) {
  const std::string text = wrap(right, page_width, option_width);
  const std::string head = "  " + left;
  if (width_of(head) + 2 > option_width) return head + "\n" + text;
  return head + std::string(option_width - width_of(head), ' ') + text.substr(option_width);
}

/// The parts of a page that come from the options.
struct OptionParts {
  std::string usage;
  std::string arguments;
  std::map<std::string, std::string> flags;  // by group
};

OptionParts parts_of(const CLI::App& app) {
  OptionParts parts;
  for (const CLI::Option* option : options_of(app)) {
    const std::string usage = usage_of(*option);
    const std::string line = two_columns(usage, option->get_description());
    if (option->get_positional()) {
      parts.usage += " " + (option->get_required() ? usage : "[" + usage + "]");
      parts.arguments += line;
    } else {
      parts.flags[option->get_group()] += line;
    }
  }
  return parts;
}

}  // namespace

std::string render_help(const CLI::App& app, const TextOf& text_of) {
  const CommandText& text = text_of(app);
  const auto below = commands_below(app);
  OptionParts parts = parts_of(app);
  std::string out = "Usage: " + command_line_of(app) + (below.empty() ? "" : " COMMAND") +
                    parts.usage + " [OPTIONS]\n\n" +
                    wrap(text.details.empty() ? text.summary + "." : text.details, page_width);
  if (!below.empty()) {
    out += "\nCommands:\n";
    for (const CLI::App* command : below) {
      out += two_columns(name_of(*command), text_of(*command).summary);
    }
  }
  if (!parts.arguments.empty()) out += "\nArguments:\n" + parts.arguments;
  out += "\nOptions:\n" + parts.flags["Options"] + two_columns("-h, --help", "Print this text");
  const std::string& stores = parts.flags["Stores"];
  if (!stores.empty()) out += "\nStores:\n" + stores;
  if (app.get_parent() == nullptr) {
    out += "\n" + wrap(stores_text, page_width) + "\nExit codes:\n" + exit_codes_text + "\n";
  } else if (!stores.empty()) {
    out += "\nThe environment or a config file can name the stores too: leasehold --help\n";
  }
  if (!text.examples.empty()) out += "\nExamples:\n" + wrap(text.examples, 1'000, 2);
  return out;
}

std::vector<const CLI::App*> commands_below(const CLI::App& app) {
  std::vector<const CLI::App*> commands;
  for (const CLI::App* command : children_of(app)) {
    const auto further = commands_below(*command);
    if (further.empty()) commands.push_back(command);
    commands.insert(commands.end(), further.begin(), further.end());
  }
  return commands;
}

std::vector<std::string> words_below(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::App* command : children_of(app)) words.push_back(command->get_name());
  return words;
}

std::string name_of(const CLI::App& app) {
  if (app.get_parent() == nullptr) return "";
  const std::string before = name_of(*app.get_parent());
  return before.empty() ? app.get_name() : before + " " + app.get_name();
}

std::string command_line_of(const CLI::App& app) {
  const std::string name = name_of(app);
  return name.empty() ? "leasehold" : "leasehold " + name;
}

std::vector<const CLI::Option*> options_of(const CLI::App& app) {
  std::vector<const CLI::Option*> options;
  for (const CLI::Option* option : app.get_options()) {
    if (option != app.get_help_ptr() && !option->get_group().empty()) options.push_back(option);
  }
  return options;
}

std::string usage_of(const CLI::Option& option) {
  if (option.get_positional()) {
    return option.get_name(true) + (option.get_expected_max() > 1 ? "..." : "");
  }
  std::string out;
  for (const std::string& name : option.get_snames()) out += "-" + name + ", ";
  out += "--" + option.get_lnames().front();
  if (option.get_items_expected_max() > 0) out += " " + option.get_type_name();
  return out;
}

}  // namespace leasehold::cli
