#include "commands.hpp"

#include <algorithm>
#include <charconv>
#include <iostream>

#include "leasehold/errors.hpp"
#include "leasehold/version.hpp"
#include "text.hpp"
#include "worker/secrets.hpp"
#include "worker/settings.hpp"

namespace leasehold::cli {
namespace {

constexpr std::size_t page_width = 80;
constexpr std::size_t option_width = 26;

/// The words that may follow here, separated by blanks.
std::string names_below(const CLI::App& app) {
  std::string names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) names += (names.empty() ? "" : " ") + command->get_name();
  }
  return names;
}

std::string commas(std::string words) {
  for (auto at = words.find(' '); at != words.npos; at = words.find(' ', at + 2)) {
    words.insert(at, ",");
  }
  return words;
}

std::string two_columns(const std::string& left, const std::string& right) {
  const std::string text = wrap(right, page_width, option_width);
  const std::string head = "  " + left;
  if (width_of(head) + 2 > option_width) return head + "\n" + text;
  return head + std::string(option_width - width_of(head), ' ') + text.substr(option_width);
}

/// The command that was parsed, as far as it goes.
CLI::App* deepest(CLI::App& root) {
  CLI::App* app = &root;
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return app;
}

std::string command_line_of(const CLI::App& app) {
  const std::string name = name_of(app);
  return name.empty() ? "leasehold" : "leasehold " + name;
}

// CLI11 takes a word like [a,b] for a list. With this behind it, it does not: see escape_lists().
constexpr char no_list = '\x01';

/// The words behind the program's name, the last one first, as CLI11 wants them.
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

void take_escapes_off(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_max() > 0) option->transform(without_escape);
  }
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    take_escapes_off(*command);
  }
}

[[noreturn]] void refuse_empty(const std::string& option) {
  throw Failure(ExitCode::misused, option + " has an empty value",
                "Leave it out, or give it a value; perhaps a variable of a script is empty");
}

/// CLI11 would take the next word for the value of --type=.
void refuse_empty_values(int argc, const char* const* argv) {
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    const std::string_view word = argv[i];
    if (word.starts_with("--") && word.find('=') == word.size() - 1) {
      refuse_empty(worker::shown(word));
    }
  }
}

/// An empty value is never as good as none: `--type "$T"` would mean all types.
void refuse_empty_values(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional() || option->get_items_expected_max() == 0) continue;
    if (std::ranges::count(option->results(), std::string()) > 0) refuse_empty(option->get_name());
  }
  for (const CLI::App* command : app.get_subcommands()) refuse_empty_values(*command);
}

/// Words that belong nowhere. Not --, which only says that no flags follow.
std::vector<std::string> extras_of(const CLI::App& app, bool and_below) {
  std::vector<std::string> extras = app.remaining(and_below);
  std::erase(extras, "--");
  for (std::string& extra : extras) extra = without_escape(std::move(extra));
  return extras;
}

[[noreturn]] void refuse_extra(const CLI::App& app, const std::string& extra) {
  if (extra.starts_with('-')) {
    const std::string flag = extra.substr(0, extra.find('='));
    std::string flags;
    for (const CLI::Option* option : options_of(app)) {
      for (const std::string& name : option->get_lnames()) flags += "--" + name + " ";
    }
    const std::string close = nearest(flag, flags);
    throw Failure(ExitCode::misused, "unknown flag " + worker::shown(flag),
                  close.empty() ? "" : "Did you mean " + close + "?");
  }
  if (commands_below(app).empty()) {
    throw Failure(ExitCode::misused, "one argument too many: " + worker::shown(extra));
  }
  const std::string names = names_below(app);
  const std::string close = nearest(extra, names);
  throw Failure(ExitCode::misused, "unknown command " + worker::shown(extra),
                close.empty() ? "There are: " + commas(names) : "Did you mean " + close + "?");
}

/// What the user can do about an answer of a store.
std::string advice(const ServerRefused& error) {
  switch (error.reason()) {
    case ServerRefused::Reason::no_schema:
      return "Make the tables with: leasehold migrate";
    case ServerRefused::Reason::newer_schema:
      return "Install the newer leasehold";
    case ServerRefused::Reason::authentication:
      return "Check the user and the password of the URI";
    case ServerRefused::Reason::permission:
      return "Give the user of the URI this right, or take another user";
    case ServerRefused::Reason::read_only:
      return "Name the primary, not a replica";
    default:
      return error.transient() ? "Try again shortly" : "";
  }
}

ExitCode tell(const Failure& failure, const std::string& command, bool json) {
  if (json) {
    const nlohmann::ordered_json object{{"error", failure.what()},
                                        {"hint", failure.hint()},
                                        {"exit_code", static_cast<int>(failure.code())}};
    std::cerr << object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
    return failure.code();
  }
  std::cerr << "leasehold: " << printable(failure.what()) << "\n";
  if (!failure.hint().empty()) std::cerr << printable(failure.hint()) << "\n";
  if (failure.code() == ExitCode::misused) std::cerr << "See " << command << " --help\n";
  return failure.code();
}

}  // namespace

Failure as_failure(const std::exception& error) {
  if (const auto* failure = dynamic_cast<const Failure*>(&error)) return *failure;
  if (dynamic_cast<const InvalidArgument*>(&error) != nullptr) {
    return {ExitCode::misused, error.what()};
  }
  if (dynamic_cast<const Unavailable*>(&error) != nullptr) {
    return {ExitCode::unreachable, error.what(),
            "Is the server up, and is this its address? Nothing was done: trying again is safe"};
  }
  if (dynamic_cast<const OutcomeUnknown*>(&error) != nullptr) {
    return {ExitCode::unknown, error.what(), "It may have happened: look before trying again"};
  }
  if (const auto* refused = dynamic_cast<const ServerRefused*>(&error)) {
    return {ExitCode::failed, error.what(), advice(*refused)};
  }
  return {ExitCode::failed, error.what()};
}

Failure failure_in_the_middle(const std::exception& error, const std::string& done) {
  const Failure failure = as_failure(error);
  switch (failure.code()) {
    case ExitCode::unreachable:
      return {failure.code(), failure.what(), done + "; the rest was not: trying again is safe"};
    case ExitCode::unknown:
      return {failure.code(), failure.what(),
              done + "; the next one may have been too: look before trying again"};
    default:
      return {failure.code(), failure.what(),
              done + "; the rest was not" + (failure.hint().empty() ? "" : ". " + failure.hint())};
  }
}

void Session::confirm(const std::string& question) const {
  if (yes) return;
  if (!can_ask()) {
    throw Failure(ExitCode::misused, "this needs a confirmation, and there is nobody to ask",
                  "Add --yes if you are sure");
  }
  if (!ask(question)) throw Failure(ExitCode::failed, "not confirmed; nothing was done");
}

void Session::print_version(bool json) {
  if (json) {
    print({{"version", version()}});
  } else {
    std::cout << "leasehold " << version() << "\n";
  }
}

void Session::print(const nlohmann::ordered_json& json) {
  // What a store says may be in any encoding.
  std::cout << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
}

Commands::Commands() : root_("", "leasehold") {
  texts_[&root_] = {
      "leasehold", "looks after locks and task leases",
      "Looks at the locks and tasks of Leasehold, puts right what went wrong, and shows in a demo "
      "what happens when workers are killed.",
      "leasehold demo\n"
      "leasehold status --store sqlite:app.db\n"
      "leasehold enqueue mail --payload '{\"to\":7}' --database postgresql://localhost/app\n"
      "leasehold tasks list --state dead\n"
      "leasehold locks show invoice:42"};
  root_.set_help_flag("-h,--help", "This text");
  root_.allow_extras();
  // Those that are added get it too. A second command's name is a word like others.
  root_.require_subcommand(0, 1);
  root_.add_flag("--version", version_, "Say the version")->disable_flag_override();
  add_store_flags(root_, {.locks = true, .tasks = true});
}

void Commands::add_store_flags(CLI::App& app, Uses uses) {
  app.add_flag("--json", json_, "Answer as JSON; errors too, on standard error")
      ->disable_flag_override();
  if (uses.confirmation) {
    app.add_flag("-y,--yes", yes_, "Do not ask; for scripts")->disable_flag_override();
  }
  if (!uses.locks && !uses.tasks) return;
  const auto add = [&](const char* name, std::string& value, const char* type, const char* help) {
    app.add_option(name, value, help)->type_name(type)->group("Stores");
  };
  if (uses.locks) add("--redis", flags_.redis, "URI", "The Redis that has the locks");
  if (uses.tasks) {
    add("--database", flags_.database, "URI", "The PostgreSQL that has the tasks");
    add("--schema", flags_.schema, "NAME", "The schema of its tables [leasehold]");
  }
  add("--store", flags_.store, "sqlite:FILE", "A file of SQLite that has locks and tasks");
  add("--config", flags_.config, "FILE", "A config file of leaseholdd that says where they are");
  if (uses.tasks) add("--queue", flags_.queue, "NAME", "This [queue NAME] of the config file");
}

CLI::App& Commands::add_group(CommandText text, Uses uses) {
  CLI::App& app = *root_.add_subcommand(text.name, text.summary);
  app.set_help_flag("-h,--help", "This text");
  app.allow_extras();
  add_store_flags(app, uses);
  texts_[&app] = std::move(text);
  return app;
}

CLI::App& Commands::add(CLI::App& parent, CommandText text, Uses uses, Run run) {
  CLI::App& app = *parent.add_subcommand(text.name, text.summary);
  app.set_help_flag("-h,--help", "This text");
  // Looked at by us: CLI11 would print arguments that may contain passwords.
  app.allow_extras();
  add_store_flags(app, uses);
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

std::string Commands::help(const CLI::App& app) const {
  const CommandText& text = text_of(app);
  const auto below = commands_below(app);
  std::string out = "Usage: " + command_line_of(app);
  if (!below.empty()) out += " COMMAND";
  std::string arguments;
  std::map<std::string, std::string> flags;  // by group
  for (const CLI::Option* option : options_of(app)) {
    const std::string line = two_columns(usage_of(*option), option->get_description());
    if (option->get_positional()) {
      out += " " + (option->get_required() ? usage_of(*option) : "[" + usage_of(*option) + "]");
      arguments += line;
    } else {
      flags[option->get_group()] += line;
    }
  }
  out +=
      " [OPTIONS]\n\n" + wrap(text.details.empty() ? text.summary + "." : text.details, page_width);
  if (!below.empty()) {
    out += "\nCommands:\n";
    for (const CLI::App* command : below) {
      out += two_columns(name_of(*command), text_of(*command).summary);
    }
  }
  if (!arguments.empty()) out += "\nArguments:\n" + arguments;
  out += "\nOptions:\n" + flags["Options"] + two_columns("-h, --help", "This text");
  if (!flags["Stores"].empty()) out += "\nStores:\n" + flags["Stores"];
  if (&app == &root_) {
    out += "\n" + wrap(stores_text, page_width) + "\nExit codes:\n" + exit_codes_text + "\n";
  } else if (!flags["Stores"].empty()) {
    out += "\nWithout these the environment and the config file count: leasehold --help\n";
  }
  if (!text.examples.empty()) out += "\nExamples:\n" + wrap(text.examples, 1'000, 2);
  return out;
}

ExitCode Commands::run(int argc, const char* const* argv, const Environment& environment) {
  try {
    parse(argc, argv);
    const ExitCode code = run_parsed(environment);
    if (!std::cout.flush()) throw Failure(ExitCode::failed, "standard output can not be written");
    return code;
  } catch (const CLI::CallForHelp&) {
    std::cout << help(*deepest(root_)) << std::flush;
    return ExitCode::done;
  } catch (const CLI::ParseError& error) {
    return tell({ExitCode::misused, error.what()}, command_line_of(*deepest(root_)), json_);
  } catch (const std::exception& error) {
    std::cout.flush();
    return tell(as_failure(error), command_line_of(*deepest(root_)), json_);
  }
}

void Commands::parse(int argc, const char* const* argv) {
  try {
    refuse_empty_values(argc, argv);
    take_escapes_off(root_);
    root_.parse(escape_lists(argc, argv));
    refuse_empty_values(root_);
  } catch (...) {
    // The flags may not have been read yet.
    json_ = std::find(argv, argv + argc, std::string_view("--json")) != argv + argc;
    throw;
  }
}

ExitCode Commands::run_parsed(const Environment& environment) {
  const CLI::App& app = *deepest(root_);
  if (const auto extras = extras_of(app, false); !extras.empty()) refuse_extra(app, extras.front());
  // Before the last word, e.g. leasehold --bogus status.
  if (const auto extras = extras_of(root_, true); !extras.empty())
    refuse_extra(root_, extras.front());
  if (version_) {
    Session::print_version(json_);
    return ExitCode::done;
  }
  const auto found = runs_.find(&app);
  if (found == runs_.end()) {
    throw Failure(ExitCode::misused, "a command is missing after " + command_line_of(app),
                  "There are: " + commas(names_below(app)));
  }
  // Not for others: a broken config file is none of their business.
  const Uses& uses = uses_.at(&app);
  const Stores stores = uses.locks || uses.tasks ? Stores(flags_, environment) : Stores();
  Session session{stores, json_, yes_, {}};
  return found->second(session);
}

std::vector<const CLI::App*> commands_below(const CLI::App& app) {
  std::vector<const CLI::App*> commands;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_group().empty()) continue;
    const auto further = commands_below(*command);
    if (further.empty()) commands.push_back(command);
    commands.insert(commands.end(), further.begin(), further.end());
  }
  return commands;
}

std::string name_of(const CLI::App& app) {
  if (app.get_parent() == nullptr) return "";
  const std::string before = name_of(*app.get_parent());
  return before.empty() ? app.get_name() : before + " " + app.get_name();
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

std::int64_t parse_number(const std::string& flag, const std::string& text, std::int64_t least,
                          std::int64_t most) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < least || number > most) {
    throw InvalidArgument(flag + " of " + worker::shown(text) + ": allowed are " +
                          std::to_string(least) + " to " + std::to_string(most));
  }
  return number;
}

std::chrono::milliseconds parse_duration(const std::string& flag, const std::string& text,
                                         std::chrono::milliseconds least,
                                         std::chrono::milliseconds most) {
  try {
    return worker::parse_duration(text, least, most);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(flag + " " + error.what());
  }
}

}  // namespace leasehold::cli
