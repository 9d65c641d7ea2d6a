#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <string>

#include "redis/redis_lock_store.hpp"

namespace leasehold::fuzz {

using redis::RedisLockStore;
using std::chrono::milliseconds;

inline const std::string owner(32, 'a');

inline AcquireRequest request_for(LockKind kind) {
  return {.name = "a",
          .owner = owner,
          .metadata = {},
          .ttl = milliseconds{1'000},
          .heartbeat_every = milliseconds{300},
          .kind = kind};
}

inline LockRenewal renewal_of(LockKind kind) {
  return {.name = "a",
          .owner = owner,
          .metadata = {},
          .token = {7},
          .ttl = milliseconds{1'000},
          .heartbeat_every = milliseconds{300},
          .kind = kind};
}

inline void acquire(RedisLockStore& store, LockKind kind, AcquireMode mode, Join join) {
  AcquireRequest request = request_for(kind);
  request.mode = mode;
  request.join = join;
  store.acquire(request);
}

/// One of the 15 calls of a store.
inline void call(RedisLockStore& store, int which) {
  constexpr milliseconds timeout{1'000};
  const std::array<GrantId, 2> grants{GrantId{"a", owner}, GrantId{"b", owner}};
  switch (which) {
    case 0:
      return acquire(store, LockKind::exclusive, AcquireMode::if_free, Join::tail);
    case 1:
      return acquire(store, LockKind::shared, AcquireMode::if_free, Join::head);
    case 2:
      return acquire(store, LockKind::exclusive, AcquireMode::always, Join::no);
    case 3: {
      const std::array requests{request_for(LockKind::exclusive), request_for(LockKind::exclusive)};
      store.acquire_free(requests);
      return;
    }
    case 4: {
      std::array renewals{renewal_of(LockKind::exclusive), renewal_of(LockKind::shared)};
      return store.renew(renewals, timeout);
    }
    case 5:
      store.verify(grants, timeout);
      return;
    case 6:
      store.release("a", owner);
      return;
    case 7:
      store.release_all(grants);
      return;
    case 8:
      store.downgrade(renewal_of(LockKind::exclusive));
      return;
    case 9:
      return store.resize("a", 3);
    case 10: {
      std::array lines{LineWatch{.name = "a", .owner = owner},
                       LineWatch{.name = "b", .owner = owner}};
      return store.watch_lines(lines);
    }
    case 11:
      store.status("a");
      return;
    case 12:
      return store.visit("*", [](const LockRecord&) { return true; });
    case 13:
      store.remove_stale("*");
      return;
    default:
      store.force_release("a");
  }
}

inline RedisLockStore store_on(const std::shared_ptr<RedisLink>& link) {
  return {link, link,
          RedisLockStore::Options{RunnerId::of_this_process(), milliseconds{1'000},
                                  milliseconds{1'000}, milliseconds{1'000}}};
}

}  // namespace leasehold::fuzz
