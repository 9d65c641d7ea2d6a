#pragma once

#include <chrono>

namespace leasehold::inline v0 {

/// How a client uses SQLite.
struct SqliteOptions {
  /// How long a call keeps trying while other processes write to the file, 1 ms to 1 h. After that
  /// it throws Unavailable. Default 30 s.
  std::chrono::milliseconds timeout{30'000};
};

}  // namespace leasehold::inline v0
