#pragma once

#include "harness/postgres_server.hpp"
#include "options.hpp"
#include "report.hpp"

namespace leasehold::bench {

/// What every case gets: a PostgreSQL that nobody else uses.
struct TaskBench {
  const Options& options;
  Progress& progress;
  harness::PostgresServer& server;
};

/// Lease and complete in batches of 500 by 4 threads, against pgbench with as many clients. Ours
/// keeps what it completes, pgbench deletes it.
Result drain_batched(TaskBench& bench, const std::string& name);

/// Lease and complete one task at a time by 8 threads, against pgbench with as many clients.
Result drain_single(TaskBench& bench, const std::string& name);

/// One task at a time from a deep table, against a shallow one: just after the load and after a
/// checkpoint, and the same with pgbench, to tell our share from that of the disk.
Result drain_single_depth(TaskBench& bench, const std::string& name);

/// Many tasks in one call, against COPY by psql.
Result enqueue_bulk(TaskBench& bench, const std::string& name);

/// A lease from a deep table, against one from a shallow table.
Result depth(TaskBench& bench, const std::string& name);

/// Lease and complete tasks of two priorities while another transaction stays open and millions of
/// dead index entries cannot be removed, against the same without it.
Result held_snapshot(TaskBench& bench, const std::string& name);

/// Lease, complete and recover beside many finished tasks, against none.
Result finished_50M(TaskBench& bench, const std::string& name);

/// How much the table of a busy queue grows, against one that was just filled.
Result bloat(TaskBench& bench, const std::string& name);

/// Renewals of 5,000 leases: how many of them touch no index.
Result extend_5000(TaskBench& bench, const std::string& name);

/// 100,000 expired leases, against one plain UPDATE.
Result recover_100k(TaskBench& bench, const std::string& name);

/// The whole worker runtime with handlers that do nothing, by 1 and by 4 processes, against
/// pgbench.
Result worker_drain_1(TaskBench& bench, const std::string& name);
Result worker_drain_4(TaskBench& bench, const std::string& name);

/// From enqueue() to the handler in an idle worker that is woken by NOTIFY, against the commit of
/// one inserted row.
Result enqueue_to_start(TaskBench& bench, const std::string& name);

/// What a task costs PostgreSQL in a fleet of many worker processes, against a small one.
Result fleet_500(TaskBench& bench, const std::string& name);

/// The peak memory of a worker process whose tasks are large, against its limit.
Result worker_large_payloads(TaskBench& bench, const std::string& name);

}  // namespace leasehold::bench
