#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "redis/redis_errors.hpp"
#include "redis/redis_uri.hpp"
#include "support/thread_safety.hpp"

namespace leasehold::inline v0::redis {

class TlsContext;

/// Knows which server is the primary, because it asks all sentinels of a service twice a second,
/// and at once whenever somebody wants to connect. If they differ, the one with the latest
/// configuration is believed; an older one than before only if most of them have it. Thread-safe.
class Sentinels {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  /// Calls `on_change` on its own thread when the primary has become another one.
  Sentinels(const RedisUri& uri, const std::shared_ptr<const TlsContext>& tls,
            std::function<void()> on_change);
  ~Sentinels();

  /// Asks them. Throws Unavailable if none answers, ServerRefused if those who do refuse or do not
  /// know the service.
  RedisUri::Address find_primary(Deadline deadline);

 private:
  class Sentinel;

  void run(const std::stop_token& stop);
  void ask_all(const std::stop_token& stop);

  const std::string where_;
  const std::function<void()> on_change_;
  std::vector<std::unique_ptr<Sentinel>> sentinels_;  // used by the thread only
  unsigned long long epoch_ = 0;                      // of what we believe; used by the thread only

  ThreadMutex mutex_;
  StoppableCondition changed_;
  unsigned wanted_ LEASEHOLD_GUARDED_BY(mutex_) = 0;  // the round that somebody waits for
  unsigned asked_ LEASEHOLD_GUARDED_BY(mutex_) = 0;   // the round that is over
  bool asking_ LEASEHOLD_GUARDED_BY(mutex_) = false;  // the next round has begun
  std::optional<RedisUri::Address> primary_ LEASEHOLD_GUARDED_BY(mutex_);
  bool answered_ LEASEHOLD_GUARDED_BY(mutex_) = false;  // one of them, in the last round
  std::string problem_ LEASEHOLD_GUARDED_BY(mutex_);
  std::optional<Refusal> refused_ LEASEHOLD_GUARDED_BY(mutex_);
  std::jthread thread_ LEASEHOLD_GUARDED_BY(mutex_);  // starts with the first question
};

}  // namespace leasehold::inline v0::redis
