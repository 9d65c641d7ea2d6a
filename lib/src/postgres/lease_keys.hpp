#pragma once

#include <functional>

#include "postgres/params.hpp"
#include "tasks/task_store.hpp"

namespace leasehold::inline v0::postgres {

/// Adds the ids, the versions and the lease ids of leases as three parameters.
template <typename Items, typename KeyOf = std::identity>
void add_keys(Params& params, const Items& items, KeyOf key_of = {}) {
  ArrayText ids(items.size() * 10);
  ArrayText versions(items.size() * 4);
  ArrayText leases(items.size() * 20);
  for (const auto& item : items) {
    const LeaseKey& key = key_of(item);
    ids.add(key.id.value);
    versions.add(key.version.value);
    leases.add(key.lease.value);
  }
  params.add(std::move(ids)).add(std::move(versions)).add(std::move(leases));
}

}  // namespace leasehold::inline v0::postgres
