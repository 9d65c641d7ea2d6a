#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "tasks/task_store.hpp"

namespace leasehold::inline v0 {

/// The leases whose write a store accepted.
class Accepted {
 public:
  explicit Accepted(std::vector<LeaseName> answer) : names_(std::move(answer)) {
    std::sort(names_.begin(), names_.end());
  }

  bool contains(const LeaseKey& key) const {
    return std::binary_search(names_.begin(), names_.end(), key.name());
  }
  std::size_t size() const { return names_.size(); }

 private:
  std::vector<LeaseName> names_;  // sorted
};

}  // namespace leasehold::inline v0
