#include <unistd.h>

#include <stdexcept>
#include <thread>

#include "cpu_time.hpp"
#include "duel.hpp"
#include "leasehold/lock_client.hpp"
#include "lock_cases/cases.hpp"
#include "raw_redis.hpp"
#include "redis/redis_lock_store.hpp"

namespace leasehold::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t kept_locks = 10'000;
constexpr milliseconds kept_ttl{30'000};

struct HeldLock {
  std::string name;
  std::string owner;
};

std::vector<HeldLock> make_locks() {
  std::vector<HeldLock> locks;
  for (std::size_t i = 0; i < kept_locks; ++i) {
    std::string owner = std::to_string(i);
    owner.insert(0, 32 - owner.size(), 'f');
    locks.push_back({"bench:held:" + std::to_string(i), std::move(owner)});
  }
  return locks;
}

/// The batch that the keep-alive hands to its store when all heartbeats are due.
class OurRenewals {
 public:
  OurRenewals(const std::string& uri, const std::vector<HeldLock>& locks)
      : link_(connect_redis(uri)),
        store_(link_, link_,
               {.runner = RunnerId::of_this_process(),
                .linger = milliseconds{3'600'000},
                .keep_counters = milliseconds{3'600'000}}) {
    for (const HeldLock& lock : locks) {
      const auto outcome = store_.acquire({.name = lock.name,
                                           .owner = lock.owner,
                                           .ttl = kept_ttl,
                                           .heartbeat_every = kept_ttl / 3});
      const auto& grant = std::get<Granted>(outcome);
      LockRenewal& renewal = renewals_.emplace_back();
      renewal.name = lock.name;
      renewal.owner = lock.owner;
      renewal.token = grant.token;
      renewal.ttl = kept_ttl;
      renewal.heartbeat_every = kept_ttl / 3;
    }
  }

  std::size_t renew_all() {
    for (LockRenewal& renewal : renewals_) ++renewal.renewals;
    store_.renew(renewals_, milliseconds{10'000});
    for (const LockRenewal& renewal : renewals_) {
      if (renewal.result != RenewalResult::renewed) throw std::runtime_error("lock not renewed");
    }
    return renewals_.size();
  }

 private:
  const std::shared_ptr<RedisLink> link_;
  redis::RedisLockStore store_;
  std::vector<LockRenewal> renewals_;
};

class RawRenewals {
 public:
  RawRenewals(const harness::RedisAddress& address, const std::vector<HeldLock>& locks)
      : raw_(address.host, address.port), locks_(locks) {
    for (HeldLock& lock : locks_) {
      lock.name = "raw:{" + lock.name + "}";
      raw_.acquire(lock.name, lock.owner, kept_ttl);
    }
  }

  std::size_t renew_next() {
    const HeldLock& lock = locks_[next_++ % locks_.size()];
    raw_.renew(lock.name, lock.owner, kept_ttl);
    return 1;
  }

 private:
  RawRedisLock raw_;
  std::vector<HeldLock> locks_;
  std::size_t next_ = 0;
};

/// Processor time of one renewal in µs, in our process and in Redis.
struct Cost {
  double ours = 0;
  double redis = 0;
};

/// The whole keep-alive at work: a client that holds the locks, with a heartbeat every half second.
Cost measure_heartbeats(LockBench& bench, const std::string& name) {
  LockClient client(bench.redis.uri());
  const LockOptions options{.ttl = milliseconds{1'500}};
  std::vector<Lock> held;
  for (std::size_t i = 0; i < kept_locks; ++i) {
    bench.progress.show(name + ": taking lock " + std::to_string(i + 1));
    auto acquisition = client.acquire("bench:kept:" + std::to_string(i), options);
    if (!acquisition) throw std::runtime_error("lock not acquired");
    held.push_back(std::move(*acquisition));
  }
  bench.progress.show(name + ": watching the heartbeats");
  const double our_cpu = cpu_seconds(getpid());
  const double redis_cpu = cpu_seconds(bench.redis.pid());
  const auto before = client.stats().heartbeats;
  std::this_thread::sleep_for(bench.options.time / 2);
  const auto renewals = static_cast<double>(client.stats().heartbeats - before);
  const Cost cost{(cpu_seconds(getpid()) - our_cpu) / renewals * 1e6,
                  (cpu_seconds(bench.redis.pid()) - redis_cpu) / renewals * 1e6};
  if (client.stats().lost > 0) throw std::runtime_error("the keep-alive lost a lock");
  return cost;
}

}  // namespace

Result keep_alive(LockBench& bench, const std::string& name) {
  const auto locks = make_locks();
  OurRenewals ours(bench.redis.uri(), locks);
  RawRenewals reference(bench.redis.address(), locks);
  Crew our_crew({[&] { return ours.renew_all(); }});
  Crew raw_crew({[&] { return reference.renew_next(); }});
  const Duel duel = fight(
      bench.options, name, bench.progress, [&](auto slice) { return our_crew.run(slice); },
      [&](auto slice) { return raw_crew.run(slice); });
  const Cost cost = measure_heartbeats(bench, name);
  return {.name = name,
          .unit = "renewals/s",
          .ours = duel.ours.rate(),
          .reference = duel.reference.rate(),
          .reference_name = "hiredis, a round trip for each lock",
          .ratio = duel.ratio,
          .target = 20,
          .extra = {{"cpu_us_per_renewal", cost.ours}, {"redis_cpu_us_per_renewal", cost.redis}}};
}

}  // namespace leasehold::bench
