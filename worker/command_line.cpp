#include "command_line.hpp"

#include <CLI/CLI.hpp>
#include <map>
#include <vector>

#include "common/secrets.hpp"
#include "common/settings.hpp"
#include "leasehold/errors.hpp"
#include "leasehold/version.hpp"

namespace leasehold::worker {
namespace {

using common::Setting;

constexpr const char* description =
    "leaseholdd, the daemon of Leasehold. It removes old finished tasks, reports the state of the\n"
    "queues, and requeues the tasks of crashed workers where no other worker does. Any number of\n"
    "daemons may run.";

constexpr const char* footer = R"(
Every setting can also be an environment variable (--round-interval: LEASEHOLD_ROUND_INTERVAL) or a
line of the config file (round-interval = 5s). Flags take precedence over the environment, the
environment over the file, and the file over the defaults. The settings of one queue take precedence
over those for all queues.

Times are written like 500ms, 5s, 2m, 1h or 7d.

Signals: SIGTERM and SIGINT stop the daemon once the rounds under way have ended, or after
--shutdown-timeout; a second signal stops it at once. SIGHUP reads the config file again; an invalid
file is logged, and the old configuration stays.

Exit codes: 0 success, 1 failure, 2 wrong command line or configuration.

Examples:
  leaseholdd --database postgresql://app@db.example/app
  leaseholdd --config /etc/leasehold/leaseholdd.conf --check-config
  leaseholdd --database postgresql://app@db.example/app --once
  leaseholdd --database postgresql://app@db.example/app \
             --queue "orders schema=orders" --queue "mail schema=mail round-interval=30s"
  LEASEHOLD_DATABASE=postgresql://app:secret@db.example/app leaseholdd --log-format json)";

std::string list_of_flags() {
  std::string flags = "--config, --queue, --check-config, --once, --version, --help";
  for (const Setting& setting : common::settings()) flags += ", --" + std::string(setting.key);
  return flags;
}

std::string help_of(const Setting& setting) {
  std::string help(setting.help);
  if (!setting.fallback.empty()) help += " [" + std::string(setting.fallback) + "]";
  return help;
}

/// The flags as CLI11 reads them.
class Flags {
 public:
  Flags() {
    app_.footer(footer);
    // We look at unknown arguments ourselves: CLI11 would print them, with any password.
    app_.allow_extras();
    app_.add_option("--config", config_file_,
                    std::string("The config file; also ") + config_variable)
        ->type_name("FILE");
    app_.add_option("--queue", queues_,
                    std::string("A queue with its own settings; repeatable. Without any there is "
                                "one queue, named after its schema. Also ") +
                        queues_variable + ", separated by semicolons")
        ->type_name("\"NAME [key=value]…\"")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    add_flag("--check-config", check_config_, "Print the configuration and exit");
    add_flag("--once", once_, "Run one round for each queue and exit");
    add_flag("--version", version_, "Print the version and exit");
    // Every other flag is a row of common/settings.cpp.
    for (const Setting& setting : common::settings()) {
      const std::string key(setting.key);
      app_.add_option("--" + key, values_[key], help_of(setting))
          ->type_name(std::string(setting.type))
          ->group(setting.scope == Setting::Scope::daemon
                      ? "The daemon"
                      : "All queues, unless a queue has its own");
    }
  }

  /// Throws InvalidArgument.
  CommandLine parse(int argc, const char* const* argv) {
    try {
      app_.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
      return {.action = CommandLine::Action::print, .text = app_.help()};
    } catch (const CLI::ParseError& error) {
      throw InvalidArgument(error.what());
    }
    refuse_extras();
    if (version_) {
      return {.action = CommandLine::Action::print,
              .text = std::string("leaseholdd ") + version() + "\n"};
    }
    if (once_ && check_config_) {
      throw InvalidArgument("--once and --check-config exclude each other");
    }
    using enum CommandLine::Action;
    return {.action = once_           ? once
                      : check_config_ ? check_config
                                      : run,
            .config_file = config_file_,
            .flags = layer()};
  }

 private:
  void add_flag(const char* name, bool& value, const char* help) {
    app_.add_flag(name, value, help)->disable_flag_override();
  }

  void refuse_extras() const {
    const auto extras = app_.remaining();
    if (extras.empty()) return;
    const std::string& first = extras.front();
    const std::string what = first.starts_with('-')
                                 ? "unknown flag " + common::shown(first.substr(0, first.find('=')))
                                 : "an argument belongs to no flag";
    throw InvalidArgument(what + "; the flags are " + list_of_flags());
  }

  common::Layer layer() const {
    common::Layer flags;
    for (const auto& [key, value] : values_) {
      if (app_.count("--" + key) > 0) flags.general[key] = {value, "--" + key};
    }
    for (const std::string& queue : queues_) {
      for (auto& [name, own] : common::parse_queues(queue, "--queue")) {
        if (!flags.queues.emplace(name, std::move(own)).second) {
          throw InvalidArgument("--queue: queue " + name + " is defined twice");
        }
      }
    }
    return flags;
  }

  CLI::App app_{description, "leaseholdd"};
  std::string config_file_;
  std::vector<std::string> queues_;
  bool check_config_ = false;
  bool once_ = false;
  bool version_ = false;
  std::map<std::string, std::string> values_;  // by the key of the setting
};

}  // namespace

CommandLine parse_command_line(int argc, const char* const* argv,
                               const common::Environment& environment) {
  CommandLine result = Flags().parse(argc, argv);
  const auto variable = environment.find(config_variable);
  if (result.config_file.empty() && variable != environment.end()) {
    result.config_file = variable->second;
  }
  return result;
}

}  // namespace leasehold::worker
