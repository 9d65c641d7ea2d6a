#pragma once

#include <pqxx/transaction_base>
#include <span>
#include <string_view>
#include <vector>

#include "leasehold/export.hpp"
#include "leasehold/fencing_token.hpp"
#include "leasehold/task.hpp"
#include "leasehold/task_queue.hpp"

namespace leasehold::inline v0 {

// Work in the caller's own transaction: its effects and our bookkeeping are committed together or
// not at all. The transaction must be in the same database as the queue. The client_encoding of its
// connection must be UTF8, or SQL_ASCII, which passes our UTF-8 on as it is. All functions throw
// our own exceptions; only commit(), which is the caller's, throws those of libpqxx.

/// Adds a task when `transaction` commits. If another open transaction has added a task with the
/// same unique key, the call waits until that one ends. If a pending task has that key, its row
/// stays locked until `transaction` ends, and it cannot be leased until then. A leased task is not
/// locked.
LEASEHOLD_API Enqueued enqueue_in(pqxx::transaction_base& transaction, TaskQueue& queue,
                                  const NewTask& task);
LEASEHOLD_API std::vector<Enqueued> enqueue_in(pqxx::transaction_base& transaction,
                                               TaskQueue& queue, std::span<const NewTask> tasks);

/// Completes a task when `transaction` commits. Throws LeaseLost if the lease is gone: let the
/// transaction roll back, and none of it has happened. Nobody can take the lease before the commit,
/// because the task's row is locked.
///
/// Afterwards the handle no longer writes to its task, not even in its destructor. If the
/// transaction was rolled back, call fail() or release(), or let the lease expire.
LEASEHOLD_API void complete_in(pqxx::transaction_base& transaction, TaskLease& lease,
                               std::string_view result = {});

/// The same in the handler of a worker. Commit, and then return from the handler. If the handler
/// throws instead, the attempt has failed, unless the transaction was committed before. If it
/// returns without a commit, the lease expires. The lease is not renewed between this call and the
/// end of the handler. If the transaction was rolled back, the call may be repeated in a new one.
LEASEHOLD_API void complete_in(pqxx::transaction_base& transaction, Task& task,
                               std::string_view result = {});

/// Throws StaleToken if a newer token was seen for the resource (1 to 512 bytes of UTF-8). Call it
/// with the token of a lock before touching what the lock protects. If reading and writing happen
/// in two transactions, call it in both. It blocks newer holders until `transaction` ends, and
/// older ones are refused from then on. In SQL: SELECT leasehold.fence('resource', token).
LEASEHOLD_API void fence(pqxx::transaction_base& transaction, std::string_view resource,
                         FencingToken token, std::string_view schema = "leasehold");

}  // namespace leasehold::inline v0
