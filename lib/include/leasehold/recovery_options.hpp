#pragma once

#include <cstddef>

namespace leasehold::inline v0 {

/// How expired leases are taken back.
struct RecoveryOptions {
  /// A task is dead once it has crashed this many times: its lease expired after it had been
  /// started. An attempt that ends in order sets the count back to 0. 1 to 1,000,000. Default 3.
  ///
  /// Tasks of TaskQueue::lease() are started with their lease, and so are those that a worker
  /// leases for an idle thread, and every task of which a lease has expired since an attempt ended
  /// in order. A task that a worker has leased ahead is known to be started from the first renewal
  /// of its lease after its handler was called; renewals come every third of the lease. If the
  /// worker crashes before that, neither the crash nor the attempt counts.
  int max_crashes = 3;

  /// How many leases are taken back in one statement, 1 to 10,000. Larger batches are faster and
  /// keep rows locked for longer. Default 1,000.
  std::size_t batch = 1'000;
};

}  // namespace leasehold::inline v0
