#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace leasehold::inline v0 {

/// Whose turn it is to be leased first, so that a limit smaller than the number of types is fair
/// too. Each list of types has turns of its own: who asks for two lists by turns, as workers do,
/// would otherwise always begin at the same type of each. Thread-safe.
class Turns {
 public:
  /// The place in the list of the type that goes first now.
  std::size_t next(const std::vector<std::string>& types) {
    if (types.size() == 1) return 0;
    const std::lock_guard guard(mutex_);
    if (turns_.size() >= most_lists && !turns_.contains(types)) turns_.clear();
    return turns_[types]++ % types.size();
  }

 private:
  // Nobody leases by more lists than this; if somebody does, we begin anew.
  static constexpr std::size_t most_lists = 1'000;

  std::mutex mutex_;
  std::map<std::vector<std::string>, std::size_t> turns_;  // protected by mutex_
};

}  // namespace leasehold::inline v0
