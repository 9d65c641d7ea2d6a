#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "sqlite/database/connection.hpp"
#include "sqlite/database/hub.hpp"
#include "sqlite/database/sqlite_uri.hpp"
#include "support/fair_mutex.hpp"
#include "support/internal_api.hpp"

namespace leasehold::inline v0::sqlite {

/// What a kind of store keeps in a database. Several kinds may live in one.
struct Schema {
  std::string_view kind;                            ///< "locks" or "tasks"
  std::span<const EmbeddedText* const> migrations;  ///< 0001_….sql and so on, in order
  /// A script that ends the grants or leases of an earlier boot. In it :now stands for ms since
  /// this boot.
  const EmbeddedText* on_new_boot = nullptr;
};

enum class Durability {
  process_crash,  ///< kill -9 loses nothing; a power failure may lose the last transactions
  power_failure,  ///< a power failure loses nothing either: each transaction syncs the disk
};

/// What to do with a file in which another program has tables and we have none.
enum class Strangers {
  refused,
  joined,  ///< our tables are added
};

struct OpenOptions {
  /// How long a call retries while other processes block it.
  std::chrono::milliseconds timeout{5000};
  Schema schema;
  Durability durability = Durability::power_failure;
  Strangers strangers = Strangers::refused;
  /// Tests set it to pretend that the machine was restarted. Empty: what the kernel says.
  std::string boot_id;
  /// Where retries are counted, for several databases that look like one to their user. Null: each
  /// has its own counter.
  std::shared_ptr<std::atomic<std::uint64_t>> busy_retries;
};

/// What the body of a transaction works with.
using Transaction = Connection;

/// A SQLite database of ours: one connection, used by one thread at a time while others wait.
///
/// A call that returns has happened. One that throws Unavailable or ServerRefused has not. It
/// throws OutcomeUnknown only if the disk fails during a commit. While other processes block it, a
/// call is repeated, up to the time-out. A file that was deleted or replaced is opened anew; what
/// it contained is gone.
///
/// A call that would wait for a transact() of its own thread throws InvalidArgument.
///
/// Thread-safe. A child of fork() must not use what its parent has opened; it opens its own.
class LEASEHOLD_INTERNAL_API Database {
 public:
  /// Opens the database, and makes the file and the tables if they are missing. Throws as above,
  /// and ServerRefused for a file that is not ours or was made by a newer Leasehold.
  Database(SqliteUri uri, const OpenOptions& options);
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// Runs `fn(Transaction&)` in an immediate transaction, commits, and returns what `fn` returned.
  /// If `fn` throws, nothing is changed. `fn` may be called more than once, and must not use this
  /// Database itself.
  template <class Fn>
  auto write(Fn&& fn) {
    return call(Mode::write, timeout_, fn);
  }
  template <class Fn>
  auto write(std::chrono::milliseconds timeout, Fn&& fn) {
    return call(Mode::write, timeout, fn);
  }
  /// The same for reading: everything that `fn` reads is of one moment.
  template <class Fn>
  auto read(Fn&& fn) {
    return call(Mode::read, timeout_, fn);
  }
  template <class Fn>
  auto read(std::chrono::milliseconds timeout, Fn&& fn) {
    return call(Mode::read, timeout, fn);
  }
  /// The same for an `fn` that executes a single statement, which is a transaction by itself. Saves
  /// BEGIN and COMMIT.
  template <class Fn>
  auto single(Fn&& fn) {
    return call(Mode::single, timeout_, fn);
  }

  /// How often a call was blocked by another process and repeated.
  std::uint64_t busy_retries() const { return busy_retries_->load(std::memory_order_relaxed); }
  const std::shared_ptr<std::atomic<std::uint64_t>>& retry_counter() const { return busy_retries_; }

  /// The version of the tables before it was opened; 0 for none.
  int version_found() const { return version_found_; }
  const SqliteUri& uri() const { return uri_; }
  std::string where() const { return uri_.display(); }

  /// For messages between its users within this process.
  Hub& hub() const { return *hub_; }

  /// Makes another connection to the file.
  std::unique_ptr<Connection> connect() const { return std::make_unique<Connection>(uri_); }

  /// Adds the tables of another store. Returns the version that they had before; 0 for none.
  int add(const OpenOptions& options);

 private:
  enum class Mode { read, write, single };
  using Body = void (*)(void* context, Transaction& transaction);

  template <class Fn>
  auto call(Mode mode, std::chrono::milliseconds timeout, Fn& fn) {
    using Result = std::invoke_result_t<Fn&, Transaction&>;
    if constexpr (std::is_void_v<Result>) {
      run(
          mode, timeout, [](void* body, Transaction& t) { (*static_cast<Fn*>(body))(t); }, &fn);
    } else {
      std::optional<Result> result;
      auto keep = [&](Transaction& transaction) { result.emplace(fn(transaction)); };
      run(
          mode, timeout,
          [](void* body, Transaction& t) { (*static_cast<decltype(keep)*>(body))(t); }, &keep);
      return std::move(*result);
    }
  }
  void run(Mode mode, std::chrono::milliseconds timeout, Body body, void* context);
  void run_once(Mode mode, Body body, void* context) LEASEHOLD_REQUIRES(mutex_);
  template <class Attempt>
  void while_busy(std::chrono::milliseconds timeout, Attempt&& attempt);
  template <class Attempt>
  void retry_while_busy(std::chrono::milliseconds timeout, Attempt&& attempt);
  bool is_in_own_way() const;
  [[noreturn]] void refuse_inside_transact() const;
  int open_anew() LEASEHOLD_REQUIRES(mutex_);

  const SqliteUri uri_;
  const std::chrono::milliseconds timeout_;
  const std::shared_ptr<Hub> hub_;
  const std::shared_ptr<std::atomic<std::uint64_t>> busy_retries_;
  int version_found_ = 0;  // written by the constructor

  FairMutex mutex_;  // fair: a thread that calls without a pause must not keep out the others
  std::unique_ptr<Connection> connection_ LEASEHOLD_GUARDED_BY(mutex_);
  std::vector<OpenOptions> stores_ LEASEHOLD_GUARDED_BY(mutex_);
};

/// A new Database; for shared memory, the one that this process has open already.
struct OpenedDatabase {
  std::shared_ptr<Database> database;
  int version_found;  ///< of the tables of this kind, before; 0 for none
};
LEASEHOLD_INTERNAL_API OpenedDatabase open_and_look(const SqliteUri& uri,
                                                    const OpenOptions& options);
inline std::shared_ptr<Database> open_database(const SqliteUri& uri, const OpenOptions& options) {
  return open_and_look(uri, options).database;
}

}  // namespace leasehold::inline v0::sqlite
