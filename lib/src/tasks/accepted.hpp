#pragma once

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "tasks/task_store.hpp"

namespace leasehold::inline v0 {

/// The leases whose write a store accepted. The answer of a store names ids. If a call contains two
/// leases of one task, the answer refers to the newer one, because the older one must have ended.
class Accepted {
 public:
  Accepted() = default;
  Accepted(std::vector<LeaseKey> sent, std::vector<TaskId> answer) : keys_(std::move(sent)) {
    std::sort(keys_.begin(), keys_.end(), older);
    std::sort(answer.begin(), answer.end());
    auto accepted = answer.begin();
    auto kept = keys_.begin();
    for (auto key = keys_.begin(); key != keys_.end(); ++key) {
      const auto next = key + 1;
      if (next != keys_.end() && next->id == key->id) continue;  // there is a newer lease
      while (accepted != answer.end() && *accepted < key->id) ++accepted;
      if (accepted != answer.end() && *accepted == key->id) *kept++ = *key;
    }
    keys_.erase(kept, keys_.end());
  }

  bool contains(const LeaseKey& key) const {
    return std::binary_search(keys_.begin(), keys_.end(), key, older);
  }
  std::size_t size() const { return keys_.size(); }

 private:
  static bool older(const LeaseKey& a, const LeaseKey& b) {
    return std::tie(a.id, a.version) < std::tie(b.id, b.version);
  }

  std::vector<LeaseKey> keys_;  // sorted
};

}  // namespace leasehold::inline v0
