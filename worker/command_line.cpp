#include "command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "leasehold/errors.hpp"
#include "leasehold/redis_link.hpp"
#include "leasehold/task_queue.hpp"
#include "leasehold/version.hpp"
#include "secrets.hpp"
#include "settings.hpp"
#include "sqlite/database/sqlite_uri.hpp"

namespace leasehold::worker {
namespace {

constexpr const char* config_variable = "LEASEHOLD_CONFIG";
constexpr const char* queues_variable = "LEASEHOLD_QUEUES";

constexpr const char* description =
    "leaseholdd, the recovery daemon of Leasehold: it requeues what crashed workers held, removes\n"
    "finished tasks when they are old enough, and shows how the queues fare. Any number may run.";

constexpr const char* footer = R"(
Every setting can also be an environment variable (--sweep-interval: LEASEHOLD_SWEEP_INTERVAL) or a
line of the config file (sweep-interval = 5s). Flags go before the environment, that before the file,
that before the defaults; what is said of one queue goes before what is said of all.

Times are written like 500ms, 5s, 2m, 1h or 7d.

Signals: SIGTERM and SIGINT end it after the rounds under way, within --shutdown-timeout; a second one
at once. SIGHUP reads the config file again; if that is not valid, the old one stays.

Exit codes: 0 it did what was asked, 1 it could not, 2 the command line or the configuration is wrong.

Examples:
  leaseholdd --database postgresql://app@db.example/app
  leaseholdd --config /etc/leasehold/leaseholdd.conf --check-config
  leaseholdd --database postgresql://app@db.example/app --once
  leaseholdd --database postgresql://app@db.example/app \
             --queue "orders schema=orders" --queue "mail schema=mail sweep-interval=30s"
  LEASEHOLD_DATABASE=postgresql://app:secret@db.example/app leaseholdd --log-format json)";

std::string list_of_flags() {
  std::string flags = "--config, --queue, --check-config, --once, --version, --help";
  for (const Setting& setting : settings()) flags += ", --" + std::string(setting.key);
  return flags;
}

std::string help_of(const Setting& setting) {
  std::string help(setting.help);
  if (!setting.fallback.empty()) help += " [" + std::string(setting.fallback) + "]";
  return help;
}

Layer read_environment(const Environment& environment) {
  Layer layer;
  for (const Setting& setting : settings()) {
    const std::string name = environment_variable(setting.key);
    const auto found = environment.find(name);
    if (found != environment.end()) layer.general[std::string(setting.key)] = {found->second, name};
  }
  if (const auto found = environment.find(queues_variable); found != environment.end()) {
    layer.queues = parse_queues(found->second, queues_variable);
  }
  return layer;
}

Layer defaults() {
  Layer layer;
  for (const Setting& setting : settings()) {
    layer.general[std::string(setting.key)] = {std::string(setting.fallback), "default"};
  }
  return layer;
}

/// What `layer` says and `sum` does not.
void add_below(Layer& sum, Layer layer) {
  sum.general.merge(layer.general);
  for (auto& [name, values] : layer.queues) sum.queues[name].merge(values);
}

/// Puts a value where it belongs; says of a refusal which value it was.
template <typename Target>
void apply(const Setting& setting, const std::function<void(Target&, const std::string&)>& set,
           Target& target, const Written& value) {
  try {
    set(target, value.text);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(value.source + ": " + std::string(setting.key) + " " + error.what());
  }
}

/// How a value is shown.
void describe(std::string& out, const Setting& setting, const Written& value,
              const std::string& as_shown) {
  std::string line = std::string(setting.key) + " = " + as_shown;
  line.resize(std::max<std::size_t>(line.size() + 1, 50), ' ');
  out += line + "# " + value.source + "\n";
}

/// A file is not opened before the first round. Nothing if it is no URI of SQLite.
std::optional<std::string> check_sqlite(const std::string& database) {
  const auto uri = sqlite::parse_sqlite_uri(database);
  if (!uri) return std::nullopt;
  if (uri->kind != sqlite::SqliteUri::Kind::file) {
    throw InvalidArgument("database " + uri->display() +
                          " is in the memory of another process: allowed is a file, sqlite:path");
  }
  return uri->display();
}

/// Makes a TaskQueue, which checks the URI and the schema without connecting; returns where it is.
std::string check_database(const QueueConfig& queue, const Written& database) {
  if (database.text.empty()) {
    throw InvalidArgument("queue " + queue.name +
                          ": no database: set --database, LEASEHOLD_DATABASE or, in the config "
                          "file, database");
  }
  try {
    if (auto where = check_sqlite(queue.database)) return *where;
    return TaskQueue{queue.database,
                     {.postgres = {.connect_timeout = queue.connect_timeout,
                                   .command_timeout = queue.command_timeout,
                                   .schema = queue.schema}}}
        .where();
  } catch (const InvalidArgument& error) {
    throw InvalidArgument("queue " + queue.name + ": " + error.what());
  }
}

QueueConfig make_queue(const std::string& name, const Values& own, const Values& general,
                       std::string& out) {
  QueueConfig queue;
  queue.name = name;
  std::map<std::string_view, const Written*> values;
  for (const Setting& setting : settings()) {
    if (setting.scope != Setting::Scope::queue) continue;
    const auto found = own.find(std::string(setting.key));
    const Written& value =
        found != own.end() ? found->second : general.at(std::string(setting.key));
    apply(setting, setting.set_queue, queue, value);
    values[setting.key] = &value;
  }
  queue.where = check_database(queue, *values.at("database"));
  out += "\n[queue " + name + "]\n";
  for (const Setting& setting : settings()) {
    if (setting.scope != Setting::Scope::queue) continue;
    const Written& value = *values.at(setting.key);
    describe(out, setting, value, setting.key == "database" ? queue.where : value.text);
  }
  return queue;
}

std::string where_redis(const Config& config, const Written& value) {
  if (config.redis.empty()) return "";
  try {
    return connect_redis(config.redis)->where();
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(value.source + ": redis: " + error.what());
  }
}

void check_distinct(const std::vector<QueueConfig>& queues) {
  for (auto a = queues.begin(); a != queues.end(); ++a) {
    for (auto b = a + 1; b != queues.end(); ++b) {
      if (a->database == b->database && a->schema == b->schema) {
        throw InvalidArgument("queues " + a->name + " and " + b->name +
                              " are the same schema of the same database");
      }
    }
  }
}

/// Not an error: Kubernetes makes variables of this kind for a service of the name leasehold.
std::vector<std::string> unknown_variables(const Environment& environment) {
  std::vector<std::string> warnings;
  for (const auto& entry : environment) {
    const std::string& name = entry.first;
    const bool known = name == config_variable || name == queues_variable ||
                       std::ranges::any_of(settings(), [&](const Setting& setting) {
                         return environment_variable(setting.key) == name;
                       });
    if (!known) warnings.push_back("environment variable ignored variable=" + name);
  }
  return warnings;
}

}  // namespace

CommandLine parse_command_line(int argc, const char* const* argv, const Environment& environment) {
  CommandLine result;
  CLI::App app{description, "leaseholdd"};
  app.footer(footer);
  // Looked at below: CLI11 would print arguments that may contain passwords.
  app.allow_extras();
  bool once = false;
  bool check_config = false;
  bool show_version = false;
  std::vector<std::string> queues;
  app.add_option("--config", result.config_file,
                 std::string("The config file; also ") + config_variable)
      ->type_name("FILE");
  app.add_option("--queue", queues,
                 std::string("A queue and what is special about it; repeatable. Without any there "
                             "is one, named like its schema. Also ") +
                     queues_variable + ", separated by semicolons")
      ->type_name("\"NAME [key=value]…\"")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag("--check-config", check_config, "Say what the configuration is, and exit")
      ->disable_flag_override();
  app.add_flag("--once", once, "One round for each queue, and exit")->disable_flag_override();
  app.add_flag("--version", show_version, "Say the version, and exit")->disable_flag_override();
  std::map<std::string, std::string> values;
  for (const Setting& setting : settings()) {
    app.add_option("--" + std::string(setting.key), values[std::string(setting.key)],
                   help_of(setting))
        ->type_name(std::string(setting.type))
        ->group(setting.scope == Setting::Scope::daemon ? "The daemon"
                                                        : "Queues: all of them, or each its own");
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    result.action = CommandLine::Action::print;
    result.text = app.help();
    return result;
  } catch (const CLI::ParseError& error) {
    throw InvalidArgument(error.what());
  }
  if (const auto extras = app.remaining(); !extras.empty()) {
    const std::string& first = extras.front();
    const std::string what = first.starts_with('-')
                                 ? "unknown flag " + shown(first.substr(0, first.find('=')))
                                 : "an argument that belongs to no flag";
    throw InvalidArgument(what + ": allowed are " + list_of_flags());
  }
  if (show_version) {
    result.action = CommandLine::Action::print;
    result.text = std::string("leaseholdd ") + version() + "\n";
    return result;
  }
  if (once && check_config) {
    throw InvalidArgument("--once and --check-config exclude each other");
  }
  if (once) result.action = CommandLine::Action::once;
  if (check_config) result.action = CommandLine::Action::check_config;

  for (const Setting& setting : settings()) {
    const std::string key(setting.key);
    if (app.count("--" + key) > 0) result.flags.general[key] = {values[key], "--" + key};
  }
  for (const std::string& queue : queues) {
    for (auto& [name, own] : parse_queues(queue, "--queue")) {
      if (!result.flags.queues.emplace(name, std::move(own)).second) {
        throw InvalidArgument("--queue: queue " + name + " comes twice");
      }
    }
  }
  const auto variable = environment.find(config_variable);
  if (result.config_file.empty() && variable != environment.end()) {
    result.config_file = variable->second;
  }
  return result;
}

LoadedConfig load_config(const CommandLine& command_line, const Environment& environment) {
  Layer sum = command_line.flags;
  add_below(sum, read_environment(environment));
  if (!command_line.config_file.empty()) {
    add_below(sum, read_config_file(command_line.config_file));
  }
  add_below(sum, defaults());
  // One queue needs no name.
  if (sum.queues.empty()) sum.queues[sum.general.at("schema").text];

  LoadedConfig loaded;
  Config& config = loaded.config;
  loaded.warnings = unknown_variables(environment);
  for (const Setting& setting : settings()) {
    if (setting.scope != Setting::Scope::daemon) continue;
    const Written& value = sum.general.at(std::string(setting.key));
    apply(setting, setting.set_daemon, config, value);
    describe(loaded.description, setting, value,
             setting.key == "redis" ? where_redis(config, value) : value.text);
  }
  for (const auto& [name, own] : sum.queues) {
    config.queues.push_back(make_queue(name, own, sum.general, loaded.description));
  }
  check_distinct(config.queues);
  return loaded;
}

}  // namespace leasehold::worker
