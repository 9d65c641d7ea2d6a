#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/environment.hpp"
#include "leasehold/lock_client.hpp"
#include "leasehold/task_queue.hpp"

namespace leasehold::cli {

/// The flags that name the stores; empty if not given.
struct StoreFlags {
  std::string redis;
  std::string database;
  std::string store;
  std::string schema;
  std::string config;
  std::string queue;
};

inline constexpr const char* stores_text =
    R"(Locks are kept in Redis and tasks in PostgreSQL, or both in one SQLite file. Their addresses come from the first of these that has one:
  1. flags: --redis and --database, or --store sqlite:FILE for both
  2. environment: LEASEHOLD_REDIS_URL and LEASEHOLD_DATABASE_URL; then
     LEASEHOLD_REDIS and LEASEHOLD_DATABASE, which leaseholdd reads; then
     LEASEHOLD_STORE for both
  3. the config file of leaseholdd (--config FILE or LEASEHOLD_CONFIG): its keys
     redis, database and schema; with --queue NAME those of [queue NAME])";

/// What to do about a SQLite file that does not exist.
enum class NewFile { refused, created };

/// The addresses of the locks and the tasks. Flags take precedence over the environment, and the
/// environment over the config file.
class Stores {
 public:
  /// Without any address.
  Stores() = default;
  /// Reads the config file, if there is one. Throws InvalidArgument.
  Stores(const StoreFlags& flags, const common::Environment& environment);

  bool has_locks() const { return !redis_.empty(); }
  bool has_tasks() const { return !database_.empty(); }

  /// Both throw a Failure that says how to set the address, if there is none.
  const std::string& lock_uri() const;
  const std::string& task_uri() const;
  const std::string& schema() const { return schema_; }

  /// Both throw a Failure if there is no such file. The clients log nothing.
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
