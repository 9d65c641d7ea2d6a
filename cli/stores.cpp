#include "stores.hpp"

#include <spdlog/logger.h>

#include <filesystem>

#include "common/config_file.hpp"
#include "common/secrets.hpp"
#include "common/settings.hpp"
#include "failure.hpp"
#include "leasehold/errors.hpp"
#include "leasehold/redis_link.hpp"
#include "leasehold/sqlite.hpp"

namespace leasehold::cli {
namespace {

std::string first_of(std::initializer_list<std::string> values) {
  for (const std::string& value : values) {
    if (!value.empty()) return value;
  }
  return {};
}

std::string value_of(const common::Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

std::string value_of(const common::Values& values, const std::string& key) {
  const auto found = values.find(key);
  return found == values.end() ? "" : found->second.text;
}

/// The values of the file. Those of the queue take precedence over the general ones.
common::Values read_file(const std::string& path, const std::string& queue) {
  if (path.empty()) {
    if (queue.empty()) return {};
    throw InvalidArgument("--queue " + common::shown(queue) +
                          " needs a config file, and there is no --config");
  }
  common::Layer file = common::read_config_file(path);
  if (queue.empty()) return file.general;
  const auto found = file.queues.find(queue);
  if (found == file.queues.end()) {
    throw InvalidArgument("the config file " + path + " has no section [queue " + queue + "]");
  }
  found->second.merge(file.general);
  return found->second;
}

std::shared_ptr<spdlog::logger> silence() { return std::make_shared<spdlog::logger>("leasehold"); }

[[noreturn]] void refuse_missing(const char* what, const char* flag, const char* variable,
                                 const char* key, const char* example) {
  throw Failure(ExitCode::misused, std::string("there is no address for the ") + what,
                std::string("Set it in one of three ways: --") + flag + " " + example +
                    " (or --store sqlite:FILE); the environment variable " + variable +
                    "; or the key " + key + " of a --config FILE");
}

/// A mistyped name must not look like an empty store.
void check_file_exists(const std::string& uri) {
  const auto path = sqlite_file(uri);
  std::error_code error;
  if (!path || std::filesystem::exists(*path, error) || error) return;  // SQLite reports the error
  throw Failure(ExitCode::misused, "there is no file " + common::shown(*path),
                "Check the name, or create the file: leasehold migrate --store sqlite:FILE");
}

}  // namespace

Stores::Stores(const StoreFlags& flags, const common::Environment& environment) {
  if (!flags.store.empty() && !flags.store.starts_with("sqlite:")) {
    throw InvalidArgument("--store must be sqlite:FILE, got " + common::shown(flags.store) +
                          "; use --redis and --database for servers");
  }
  const common::Values file =
      read_file(first_of({flags.config, value_of(environment, "LEASEHOLD_CONFIG")}), flags.queue);
  const std::string store = value_of(environment, "LEASEHOLD_STORE");
  redis_ = first_of({flags.redis, flags.store, value_of(environment, "LEASEHOLD_REDIS_URL"),
                     value_of(environment, "LEASEHOLD_REDIS"), store, value_of(file, "redis")});
  database_ =
      first_of({flags.database, flags.store, value_of(environment, "LEASEHOLD_DATABASE_URL"),
                value_of(environment, "LEASEHOLD_DATABASE"), store, value_of(file, "database")});
  schema_ = first_of({flags.schema, value_of(environment, "LEASEHOLD_SCHEMA"),
                      value_of(file, "schema"), "leasehold"});
  try {  // here, because the library's message would show a URI in the wrong place
    common::QueueConfig checked;
    common::find_setting("schema")->set_queue(checked, schema_);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument("schema " + std::string(error.what()));
  }
}

const std::string& Stores::lock_uri() const {
  if (!has_locks()) {
    refuse_missing("locks", "redis", "LEASEHOLD_REDIS_URL", "redis", "redis://HOST:6379");
  }
  return redis_;
}

const std::string& Stores::task_uri() const {
  if (!has_tasks()) {
    refuse_missing("tasks", "database", "LEASEHOLD_DATABASE_URL", "database",
                   "postgresql://HOST/DATABASE");
  }
  return database_;
}

LockClient Stores::locks(NewFile file) const {
  if (file == NewFile::refused) check_file_exists(lock_uri());
  return LockClient{lock_uri(), {.logger = silence()}};
}

TaskQueue Stores::tasks(NewFile file) const {
  if (file == NewFile::refused) check_file_exists(task_uri());
  return TaskQueue{task_uri(), {.postgres = {.schema = schema_}, .logger = silence()}};
}

std::string Stores::locks_where() const {
  return lock_uri().starts_with("sqlite:") ? lock_uri() : connect_redis(lock_uri())->where();
}

std::string Stores::tasks_where() const { return tasks().where(); }

}  // namespace leasehold::cli
