#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "support/thread_safety.hpp"

namespace leasehold::inline v0 {

/// Decides which type of task is leased first, so that a limit below the number of types is fair
/// too. Each list of types has turns of its own: a worker that asks for two lists alternately would
/// otherwise always begin with the same type of each. Thread-safe.
class Turns {
 public:
  /// The index of the type that goes first now.
  std::size_t next(const std::vector<std::string>& types) {
    if (types.size() == 1) return 0;
    const ThreadLock lock(mutex_);
    if (turns_.size() >= most_lists && !turns_.contains(types)) turns_.clear();
    return turns_[types]++ % types.size();
  }

 private:
  // Nobody leases by more lists than this. If somebody does, the turns begin anew.
  static constexpr std::size_t most_lists = 1'000;

  ThreadMutex mutex_;
  std::map<std::vector<std::string>, std::size_t> turns_ LEASEHOLD_GUARDED_BY(mutex_);
};

}  // namespace leasehold::inline v0
