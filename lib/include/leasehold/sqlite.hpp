#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "leasehold/export.hpp"
#include "leasehold/fencing_token.hpp"
#include "leasehold/task_queue.hpp"
#include "leasehold/worker.hpp"

struct sqlite3;  // of <sqlite3.h>, which only those need who have SQL of their own

namespace leasehold::inline v0 {

// Work in a transaction of your own, for queues in SQLite (`sqlite:…`): its effects and our
// bookkeeping are committed together or not at all. There are two ways:
//
//     transact(queue, [&](sqlite3* db) {           // on the queue's connection
//       execute(db, "UPDATE accounts SET …");
//       complete_in(db, lease);
//     });                                          // committed here, or rolled back if it threw
//
//     execute(db, "BEGIN IMMEDIATE");              // on your own connection to the same file
//     execute(db, "UPDATE accounts SET …");
//     complete_in(db, lease);
//     execute(db, "COMMIT");
//
// Your own connection must have the queue's file as its main database (one that is attached does
// not do: SQLite commits several files one after the other) and must have begun a transaction;
// anything else is an InvalidArgument. BEGIN IMMEDIATE is right: a transaction that has read and
// wants to write when another one has written meanwhile is refused by SQLite. An in-memory queue
// has no second connection: use transact().
//
// SQLite lets one write at a time: while the transaction is open all other writers of the file
// wait, the renewals of this very worker too. Keep it short, much shorter than a lease.
//
// All of these throw our own exceptions, and Unavailable if another connection is in the way. For
// queues in PostgreSQL the same is in leasehold/postgres.hpp.

/// Runs `work` in one immediate transaction on the queue's own connection and commits it. If it
/// throws, the transaction is rolled back, and what it threw is thrown on. `work` has that
/// connection for itself: it may use tables of its own and the functions below, must not commit or
/// roll back, and must not keep the pointer. Calling the queue or its leases inside is refused
/// (InvalidArgument), and so is any other call that would wait for this transaction, such as taking
/// a lock in the same database; other threads that do so wait. A Lock whose destructor runs inside
/// is released afterwards. Of another database transact() may be called inside, by all threads in
/// the same order.
LEASEHOLD_API void transact(TaskQueue& queue, const std::function<void(sqlite3*)>& work);

/// Adds a task if and when the transaction commits.
LEASEHOLD_API Enqueued enqueue_in(sqlite3* transaction, TaskQueue& queue, const NewTask& task);
LEASEHOLD_API std::vector<Enqueued> enqueue_in(sqlite3* transaction, TaskQueue& queue,
                                               std::span<const NewTask> tasks);

/// Completes a task if and when the transaction commits. Throws LeaseLost if the lease is gone: let
/// the transaction roll back, and nothing of it happened.
///
/// The handle then leaves its task alone, also in its destructor. If the transaction was rolled
/// back, call fail() or release() on it, or let the lease expire.
LEASEHOLD_API void complete_in(sqlite3* transaction, TaskLease& lease,
                               std::string_view result = {});

/// The same from the handler of a worker. Commit, then return from the handler. If it throws
/// instead, the task is failed, unless the transaction was committed all the same; if it returns
/// without a commit, the lease expires. The lease is not renewed between this call and the
/// handler's end. May be called again, in a new transaction, when the first one was rolled back.
LEASEHOLD_API void complete_in(sqlite3* transaction, Task& task, std::string_view result = {});

/// Throws StaleToken if a newer token than this one was seen for the resource (1 to 512 bytes of
/// UTF-8): let the transaction roll back. Call it with the lock's token before what a lock
/// protects, in the transaction that reads as in the one that writes, if these are two. The tables
/// must be in the connection's main database: a TaskQueue or migrate() makes them.
LEASEHOLD_API void fence(sqlite3* transaction, std::string_view resource, FencingToken token);

/// The path of the file that a URI like `sqlite:PATH` names. Nothing if the URI names another kind
/// of store, or one in memory. Throws InvalidArgument if it is malformed. Does not touch the file.
LEASEHOLD_API std::optional<std::string> sqlite_file(std::string_view uri);

}  // namespace leasehold::inline v0
