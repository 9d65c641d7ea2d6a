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

/// What is in the book at the end.
struct Totals {
  std::uint64_t effects = 0;  ///< bookings and notes
  std::uint64_t tasks_with_effect = 0;
  std::uint64_t bookings = 0;
  std::int64_t sum_of_balances = 0;
  std::uint64_t tokens_not_growing = 0;
};

/// Accounts and notes, in the database of the tasks: what the tasks of the demo have an effect on.
/// Each of the two has one guard, so that the book shows when that one fails:
///
/// A booking reads a balance in one transaction and writes the next one in another. Nothing but the
/// lock on the account, and its fence, keeps two tasks from doing it at once.
///
/// A note is only written, by somebody who leases tasks by hand and is not told of a loss. Nothing
/// but the version of its task keeps one whose lease was taken away from writing it a second time.
///
/// Thread-safe.
class Book {
 public:
  /// For the database of the queue.
  static std::unique_ptr<Book> open(const std::string& task_uri, TaskQueue& queue);
  virtual ~Book() = default;

  /// Accounts 0 to n - 1, all empty.
  virtual void create(std::int64_t accounts) = 0;

  /// Read to be changed under a lock with this token: whoever held the lock before can not write
  /// from now on. Without that, an earlier holder that comes back late could still write between
  /// this reading and book(), and its booking would be overwritten. Throws StaleToken.
  virtual std::int64_t balance(std::int64_t account, FencingToken token) = 0;

  /// The effect of a task and its completion, in one transaction. Throws LeaseLost if the task is
  /// not ours any more, StaleToken if the lock is not: then nothing has happened.
  virtual void book(Task& task, const Booking& booking) = 0;
  virtual void note(TaskLease& lease) = 0;

  virtual Totals totals() = 0;

  /// What the fencing tokens of an account are for.
  static std::string resource(std::int64_t account) { return "account:" + std::to_string(account); }
};

}  // namespace leasehold::cli
