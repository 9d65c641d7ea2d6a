#include "configuration.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "common/config_file.hpp"
#include "common/settings.hpp"
#include "leasehold/errors.hpp"
#include "leasehold/redis_link.hpp"
#include "leasehold/sqlite.hpp"
#include "leasehold/task_queue.hpp"

namespace leasehold::worker {
namespace {

using common::Config;
using common::Environment;
using common::Layer;
using common::QueueConfig;
using common::Setting;
using common::Values;
using common::Written;

Layer read_environment(const Environment& environment) {
  Layer layer;
  for (const Setting& setting : common::settings()) {
    const std::string name = common::environment_variable(setting.key);
    const auto found = environment.find(name);
    if (found != environment.end()) layer.general[std::string(setting.key)] = {found->second, name};
  }
  if (const auto found = environment.find(queues_variable); found != environment.end()) {
    layer.queues = common::parse_queues(found->second, queues_variable);
  }
  return layer;
}

Layer defaults() {
  Layer layer;
  for (const Setting& setting : common::settings()) {
    layer.general[std::string(setting.key)] = {std::string(setting.fallback), "default"};
  }
  return layer;
}

/// Adds to `sum` what only `layer` says.
void add_below(Layer& sum, Layer layer) {
  sum.general.merge(layer.general);
  for (auto& [name, values] : layer.queues) sum.queues[name].merge(values);
}

Layer all_layers(const CommandLine& command_line, const Environment& environment) {
  Layer sum = command_line.flags;
  add_below(sum, read_environment(environment));
  if (!command_line.config_file.empty()) {
    add_below(sum, common::read_config_file(command_line.config_file));
  }
  add_below(sum, defaults());
  // A single queue needs no name.
  if (sum.queues.empty()) sum.queues[sum.general.at("schema").text];
  return sum;
}

/// Sets a value. The message of a refusal names the setting and where the value came from.
template <typename Target>
void apply(const Setting& setting, const std::function<void(Target&, const std::string&)>& set,
           Target& target, const Written& value) {
  try {
    set(target, value.text);
  } catch (const InvalidArgument& error) {
    const std::string key(setting.key);
    const bool is_flag = value.source == "--" + key;
    throw InvalidArgument(value.source + (is_flag ? " " : ": " + key + " ") + error.what());
  }
}

/// Adds a line for one value, with its source as a comment.
void describe(std::string& out, const Setting& setting, const Written& value,
              const std::string& as_shown) {
  std::string line = std::string(setting.key) + " = " + as_shown;
  line.resize(std::max<std::size_t>(line.size() + 1, 50), ' ');
  out += line + "# " + value.source + "\n";
}

/// Checks the URI and the schema, without connecting and without opening a file. Returns the
/// database's name for messages.
std::string check_database(const QueueConfig& queue) {
  if (queue.database.empty()) {
    throw InvalidArgument("queue " + queue.name +
                          ": no database; set --database, LEASEHOLD_DATABASE, or database in the "
                          "config file");
  }
  try {
    if (const auto path = sqlite_file(queue.database)) return "sqlite:" + *path;
    if (queue.database.starts_with("sqlite:")) {
      throw InvalidArgument("database must be a file (sqlite:PATH), got " + queue.database +
                            ", which is in the memory of another process");
    }
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
  for (const Setting& setting : common::settings()) {
    if (setting.scope != Setting::Scope::queue) continue;
    const auto found = own.find(std::string(setting.key));
    const Written& value =
        found != own.end() ? found->second : general.at(std::string(setting.key));
    apply(setting, setting.set_queue, queue, value);
    values[setting.key] = &value;
  }
  queue.where = check_database(queue);
  out += "\n[queue " + name + "]\n";
  for (const Setting& setting : common::settings()) {
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

/// Variables that begin with LEASEHOLD_ and mean nothing. Not an error: Kubernetes sets such
/// variables for a service with the name leasehold.
std::vector<std::string> unknown_variables(const Environment& environment) {
  std::vector<std::string> names;
  for (const auto& entry : environment) {
    const std::string& name = entry.first;
    const bool known = name == config_variable || name == queues_variable ||
                       std::ranges::any_of(common::settings(), [&](const Setting& setting) {
                         return common::environment_variable(setting.key) == name;
                       });
    if (!known) names.push_back(name);
  }
  return names;
}

}  // namespace

LoadedConfig load_config(const CommandLine& command_line, const Environment& environment) {
  const Layer values = all_layers(command_line, environment);
  LoadedConfig loaded;
  Config& config = loaded.config;
  loaded.unknown_variables = unknown_variables(environment);
  for (const Setting& setting : common::settings()) {
    if (setting.scope != Setting::Scope::daemon) continue;
    const Written& value = values.general.at(std::string(setting.key));
    apply(setting, setting.set_daemon, config, value);
    describe(loaded.description, setting, value,
             setting.key == "redis" ? where_redis(config, value) : value.text);
  }
  for (const auto& [name, own] : values.queues) {
    config.queues.push_back(make_queue(name, own, values.general, loaded.description));
  }
  check_distinct(config.queues);
  return loaded;
}

}  // namespace leasehold::worker
