#pragma once

#include <algorithm>
#include <span>
#include <unordered_map>
#include <vector>

#include "tasks/task_store.hpp"

namespace leasehold {

/// Which leases a store accepted. Its answer names ids: of two leases of one task it means the
/// newer, for the older had ended before that was made.
class Accepted {
 public:
  Accepted() = default;
  Accepted(std::span<const LeaseKey> sent, const std::vector<TaskId>& answer) {
    newest_.reserve(answer.size());
    for (const TaskId id : answer) newest_.emplace(id, TaskVersion{});
    for (const LeaseKey& key : sent) {
      const auto found = newest_.find(key.id);
      if (found != newest_.end()) found->second = std::max(found->second, key.version);
    }
  }

  bool contains(const LeaseKey& key) const {
    const auto found = newest_.find(key.id);
    return found != newest_.end() && found->second == key.version;
  }
  std::size_t size() const { return newest_.size(); }

 private:
  std::unordered_map<TaskId, TaskVersion> newest_;
};

}  // namespace leasehold
