#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "leasehold/lock_client.hpp"
#include "leasehold/task_queue.hpp"

namespace leasehold::cli {

using Environment = std::map<std::string, std::string>;

/// What the flags say about where the stores are; empty for nothing.
struct StoreFlags {
  std::string redis;
  std::string database;
  std::string store;
  std::string schema;
  std::string config;
  std::string queue;
};

inline constexpr const char* stores_text =
    R"(Locks are in a Redis, tasks in a PostgreSQL, or both in one file of SQLite. The first of these that says where is believed:
  1. flags: --redis and --database, or --store sqlite:FILE for both
  2. environment: LEASEHOLD_REDIS_URL and LEASEHOLD_DATABASE_URL; then
     LEASEHOLD_REDIS and LEASEHOLD_DATABASE, which leaseholdd reads; then
     LEASEHOLD_STORE for both
  3. the config file of leaseholdd, by --config FILE or LEASEHOLD_CONFIG: its
     keys redis, database and schema; with --queue NAME those of [queue NAME])";

/// Whether a file of SQLite that is not there is made.
enum class NewFile { refused, made };

/// Where the locks and the tasks are. Flags go before the environment, that before the config file.
class Stores {
 public:
  /// Nobody said where anything is.
  Stores() = default;
  /// Reads the config file, if there is one. Throws InvalidArgument.
  Stores(const StoreFlags& flags, const Environment& environment);

  bool has_locks() const { return !redis_.empty(); }
  bool has_tasks() const { return !database_.empty(); }

  /// Both throw Failure if nobody said where: it says how to.
  const std::string& lock_uri() const;
  const std::string& task_uri() const;
  const std::string& schema() const { return schema_; }

  /// They log nothing: what goes wrong is thrown, a Failure if there is no such file.
  LockClient locks(NewFile file = NewFile::refused) const;
  TaskQueue tasks(NewFile file = NewFile::refused) const;

  /// For messages: without a password.
  std::string locks_where() const;
  std::string tasks_where() const;

 private:
  std::string redis_;
  std::string database_;
  std::string schema_;
};

}  // namespace leasehold::cli
