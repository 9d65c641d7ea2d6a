#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "leasehold/fencing_token.hpp"
#include "leasehold/task_queue.hpp"
#include "leasehold/worker.hpp"

namespace leasehold::cli {

/// What a booking does to an account.
struct Booking {
  std::int64_t account = 0;
  std::int64_t balance = 0;  ///< the new one
  FencingToken token;        ///< of the lock on the account
};

/// What the book contains at the end.
struct Totals {
  std::uint64_t effects = 0;  ///< bookings and notes
  std::uint64_t tasks_with_effect = 0;
  std::uint64_t bookings = 0;
  std::int64_t sum_of_balances = 0;
  std::uint64_t tokens_not_growing = 0;
};

/// The effects of the demo's tasks: accounts and notes, in the database of the tasks. Each of the
/// two has exactly one guard, so that the book shows when that guard fails.
///
/// A booking reads a balance in one transaction and writes the next balance in another. Only the
/// lock on the account, with its fencing token, keeps two tasks from doing that at the same time.
///
/// A note is just written, by a process that leases tasks without a Worker and so does not notice
/// that a lease is lost. Only the version of the task keeps it from writing the note a second time.
///
/// Thread-safe.
class Book {
 public:
  /// Opens the book in the database of the queue.
  static std::unique_ptr<Book> open(const std::string& task_uri, TaskQueue& queue);
  virtual ~Book() = default;

  /// Creates the accounts 0 to n - 1, all empty.
  virtual void create(std::int64_t accounts) = 0;

  /// Reads a balance that is to be changed under a lock with this token. From now on earlier
  /// holders of the lock cannot write: otherwise one that comes back late could write between this
  /// read and book(), and its booking would be overwritten. Throws StaleToken.
  virtual std::int64_t balance(std::int64_t account, FencingToken token) = 0;

  /// Writes the effect of a task and completes the task, in one transaction. Throws LeaseLost if
  /// the task is no longer ours, StaleToken if the lock is not; then nothing has happened.
  virtual void book(Task& task, const Booking& booking) = 0;
  virtual void note(TaskLease& lease) = 0;

  virtual Totals totals() = 0;

  /// The resource that the fencing tokens of an account protect.
  static std::string resource(std::int64_t account) {
    return "leasehold-demo:account:" + std::to_string(account);
  }
};

}  // namespace leasehold::cli
