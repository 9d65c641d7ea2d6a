#pragma once

#include <string>
#include <vector>

#include "harness/redis_server.hpp"
#include "options.hpp"
#include "report.hpp"

namespace leasehold::bench {

/// What every case gets: a private Redis.
struct LockBench {
  const Options& options;
  Progress& progress;
  leasehold::harness::RedisServer& redis;
};

/// Pairs of acquire and release by `threads` threads, each on locks of its own.
Result uncontended(LockBench& bench, const std::string& name, std::size_t threads, double target);

/// Pairs of acquire and release over TLS, against the same without.
Result tls(LockBench& bench, const std::string& name);

/// Pairs by 64 threads in a cluster of three primaries, against one server. All share the cores of
/// this machine, so that this shows what the cluster costs rather than what it gains.
Result cluster(LockBench& bench, const std::string& name);

/// Pairs by 64 threads whose grants two replicas have to confirm, against the same without.
Result replicas_majority(LockBench& bench, const std::string& name);

/// Pairs of acquire and release through a client of redis-plus-plus, against the library's own
/// link. Only where redis-plus-plus was found.
Result redis_plus_plus(LockBench& bench, const std::string& name);

/// Heartbeats of 10,000 held locks.
Result keep_alive(LockBench& bench, const std::string& name);

/// 16 contenders in 4 processes for one lock, against polling.
Result hot_lock_handover(LockBench& bench, const std::string& name);

/// One of those contenders' processes: see hot_lock.cpp.
int run_contenders(const std::vector<std::string>& arguments);

/// The time from a release until the next holder runs, in round trips.
Result handover_latency(LockBench& bench, const std::string& name);

/// What 1,000 waiters of one process for so many locks cost Redis while nothing happens.
Result idle_waiters(LockBench& bench, const std::string& name, std::size_t locks);

/// What one turn costs Redis while 16 threads contend: to join the line, to confirm the offer, and
/// to hand the lock over.
Result contended_turn(LockBench& bench, const std::string& name);

/// The longest script while a line of 5,000 waiters whose processes have vanished is passed over.
Result dead_line(LockBench& bench, const std::string& name);

}  // namespace leasehold::bench
