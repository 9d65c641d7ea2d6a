#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "leasehold/export.hpp"
#include "leasehold/fencing_token.hpp"
#include "leasehold/task.hpp"
#include "leasehold/task_queue.hpp"

struct sqlite3;  // from <sqlite3.h>, which you need only for SQL of your own

namespace leasehold::inline v0 {

// Work in a transaction of your own, for queues in SQLite (`sqlite:…`): your changes and our
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
// Your own connection must have the queue's file as its main database (an attached one is not
// enough: SQLite commits several files one after the other) and must have begun a transaction.
// Anything else is an InvalidArgument. Begin it with BEGIN IMMEDIATE: otherwise SQLite
// refuses its first write if another transaction has changed the database since it began to read. A
// queue in memory has no second connection: use transact().
//
// SQLite allows one writer at a time. While the transaction is open, all other writers of the file
// wait, including the renewals of this very worker. Keep it much shorter than a lease.
//
// All functions throw the exceptions of leasehold/errors.hpp: Unavailable if another connection
// blocks them. For
// queues in PostgreSQL, leasehold/postgres.hpp has the same functions.

/// Runs `work` in one immediate transaction on the queue's own connection and commits it. If `work`
/// throws, the transaction is rolled back, and the exception is passed on.
///
/// `work` has the connection to itself. It may use tables of its own and the functions below. It
/// must not commit or roll back, and must not keep the pointer. Calls that would wait for this very
/// transaction are refused (InvalidArgument): those of the queue and its leases, or taking a lock
/// in the same database. Other threads that make such calls wait. A Lock whose destructor runs
/// inside is released afterwards. A transact() on another database may be nested inside, provided
/// that every thread nests the databases in the same order.
LEASEHOLD_API void transact(TaskQueue& queue, const std::function<void(sqlite3*)>& work);

/// Adds a task when the transaction commits.
LEASEHOLD_API Enqueued enqueue_in(sqlite3* transaction, TaskQueue& queue, const NewTask& task);
LEASEHOLD_API std::vector<Enqueued> enqueue_in(sqlite3* transaction, TaskQueue& queue,
                                               std::span<const NewTask> tasks);

/// Completes a task when the transaction commits. Throws LeaseLost if the lease is gone: let the
/// transaction roll back, so that none of it happens.
///
/// Afterwards the handle no longer writes to its task, not even in its destructor. If the
/// transaction was rolled back, call fail() or release(), or let the lease expire.
LEASEHOLD_API void complete_in(sqlite3* transaction, TaskLease& lease,
                               std::string_view result = {});

/// The same in the handler of a worker. Commit, and then return from the handler. If the handler
/// throws instead, the attempt has failed, unless the transaction was committed before. If it
/// returns without a commit, the lease expires. The lease is not renewed between this call and the
/// end of the handler. If the transaction was rolled back, the call may be repeated in a new one.
LEASEHOLD_API void complete_in(sqlite3* transaction, Task& task, std::string_view result = {});

/// Throws StaleToken if a newer token was seen for the resource (1 to 512 bytes of UTF-8): let the
/// transaction roll back. Call it with the token of a lock before touching what the lock protects.
/// If reading and writing happen in two transactions, call it in both. The tables must be in the
/// connection's main database: a TaskQueue or migrate() creates them.
LEASEHOLD_API void fence(sqlite3* transaction, std::string_view resource, FencingToken token);

/// The path of the file that a URI like `sqlite:PATH` names. Nothing if the URI names another kind
/// of store, or one in memory. Throws InvalidArgument if it is malformed. Does not touch the file.
LEASEHOLD_API std::optional<std::string> sqlite_file(std::string_view uri);

}  // namespace leasehold::inline v0
