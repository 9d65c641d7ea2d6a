#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace leasehold::inline v0 {

/// Whether lease() waits until the server has written the lease to its disk (and to synchronous
/// standbys, if there are any).
enum class LeaseCommit {
  /// A lease survives a crash of the server.
  wait,
  /// Tasks start sooner: after one wait for the disk, the one of enqueue(), instead of two. If the
  /// server crashes within about half a second after a lease (three times `wal_writer_delay`), the
  /// lease is forgotten: another worker may be given the task while the first one still works on
  /// it. The first one cannot complete it any more, and loses it at its next renewal. Completions
  /// always wait for the disk.
  do_not_wait,
};

/// How a TaskQueue uses PostgreSQL.
struct PostgresOptions {
  /// The most connections that the queue opens, 1 to 1,000. They are opened when needed and shared
  /// by all threads; a call that finds all of them in use waits for one. Each costs the server a
  /// process. A cancelled statement keeps its connection busy until the server has ended it, even
  /// after the caller got its error. If all connections are stuck like this, one more is tried at
  /// once, and others after growing pauses (up to a minute). Default 4.
  ///
  /// Not included: each Worker has a connection that listens (unless it polls) and one for
  /// renewals, to which the same rule applies; migrate() opens one while it runs; and each request
  /// to cancel a statement opens one for a moment.
  std::size_t connections = 4;

  /// How long to wait for a connection to be established, 1 ms to 1 h. It applies to each address
  /// of each host that is tried. `connect_timeout` in the URI, in seconds, takes its place.
  /// Default 5 s.
  std::chrono::milliseconds connect_timeout{5'000};

  /// How long to wait for a free connection, and after that for the reply, 1 ms to 1 h. A statement
  /// that takes longer is cancelled on the server, so that it neither goes on nor commits later.
  /// Then Unavailable is thrown: it did not happen. If the server does not answer the cancellation
  /// either, the connection is given up and OutcomeUnknown is thrown. That takes half of the
  /// time-out more, but at least 100 ms and at most 1 s. Both limits are checked every eighth of
  /// the time-out, at least every 250 ms, so either may end that much late. Default 30 s.
  std::chrono::milliseconds command_timeout{30'000};

  /// Default: wait.
  LeaseCommit lease_commit = LeaseCommit::wait;

  /// The last connection is closed when it was not used for this long, 1 ms to 24 h. The others are
  /// closed after 2 s, so that a process that had much to do keeps only as many as it needs.
  /// Default 1 min.
  std::chrono::milliseconds idle_timeout{60'000};

  /// The schema that contains the tables: a letter or _, followed by letters, digits or _, at most
  /// 63 characters. Default "leasehold".
  std::string schema = "leasehold";
};

}  // namespace leasehold::inline v0
