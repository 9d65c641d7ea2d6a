#pragma once

#include <pqxx/transaction_base>
#include <span>
#include <string_view>
#include <vector>

#include "leasehold/export.hpp"
#include "leasehold/fencing_token.hpp"
#include "leasehold/task_queue.hpp"
#include "leasehold/worker.hpp"

namespace leasehold::inline v0 {

// Work in the caller's own transaction: its effects and our bookkeeping are committed together or
// not at all. The transaction must be in the same database as the queue. All of these throw our own
// exceptions; libpqxx's come from commit(), which is the caller's.

/// Adds a task if and when `transaction` commits. A unique key that is taken by a transaction still
/// under way makes it wait for that one. A living task with that key stays locked until
/// `transaction` ends: if it is pending, nobody leases it before; if it is leased, its worker's
/// renewals and completion wait. So keep the transaction much shorter than a lease.
LEASEHOLD_API Enqueued enqueue_in(pqxx::transaction_base& transaction, TaskQueue& queue,
                                  const NewTask& task);
LEASEHOLD_API std::vector<Enqueued> enqueue_in(pqxx::transaction_base& transaction,
                                               TaskQueue& queue, std::span<const NewTask> tasks);

/// Completes a task if and when `transaction` commits. Throws LeaseLost if the lease is gone: let
/// the transaction roll back, and nothing of it happened. Until the commit nobody can take the
/// lease, for the task's row is locked.
///
/// The handle then leaves its task alone, also in its destructor. If the transaction was rolled
/// back, call fail() or release() on it, or let the lease expire.
LEASEHOLD_API void complete_in(pqxx::transaction_base& transaction, TaskLease& lease,
                               std::string_view result = {});

/// The same from the handler of a worker. Commit, then return from the handler. If it throws
/// instead, the task is failed, unless the transaction was committed all the same; if it returns
/// without a commit, the lease expires. The lease is not renewed between this call and the
/// handler's end. May be called again, in a new transaction, when the first one was rolled back.
LEASEHOLD_API void complete_in(pqxx::transaction_base& transaction, Task& task,
                               std::string_view result = {});

/// Throws StaleToken if a newer token than this one was seen for the resource (1 to 512 bytes of
/// UTF-8). Call it with the lock's token before what a lock protects, in the transaction that reads
/// as in the one that writes, if these are two: it holds back newer holders until `transaction`
/// ends, and refuses older ones from then on. The same as SELECT leasehold.fence('resource', token)
/// in SQL.
LEASEHOLD_API void fence(pqxx::transaction_base& transaction, std::string_view resource,
                         FencingToken token, std::string_view schema = "leasehold");

}  // namespace leasehold::inline v0
