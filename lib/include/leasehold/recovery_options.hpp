#pragma once

#include <cstddef>

namespace leasehold::inline v0 {

/// How expired leases are taken back.
struct RecoveryOptions {
  /// A task is dead once it has crashed this many times: its lease expired after its handler had
  /// been called. An attempt that ends in order sets the count back to 0. 1 to 1,000,000.
  /// Default 3.
  int max_crashes = 3;

  /// How many leases are taken back in one statement, 1 to 10,000. Larger batches are faster and
  /// keep rows locked for longer. Default 1,000.
  std::size_t batch = 1'000;
};

}  // namespace leasehold::inline v0
