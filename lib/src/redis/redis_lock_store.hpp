#pragma once

#include <atomic>
#include <memory>

#include "leasehold/redis_link.hpp"
#include "leasehold/runner_id.hpp"
#include "locks/lock_store.hpp"
#include "redis/awaited_owners.hpp"
#include "redis/lock_value.hpp"

namespace leasehold::inline v0::redis {

/// Locks in Redis: one key for each lock, one for its token counter, and four more while it is
/// shared or somebody waits for it. Each call is one script; an acquire that meets a conflict is
/// two.
class RedisLockStore final : public LockStore {
 public:
  struct Options {
    RunnerId runner;
    std::chrono::milliseconds linger;         ///< see LockClientOptions::keep_stale_records
    std::chrono::milliseconds keep_counters;  ///< see LockClientOptions::keep_counters
    std::chrono::milliseconds timeout;        ///< of a call on either link
    RedisReplicas replicas{};                 ///< see LockClientOptions::replicas
  };

  /// Renewals have a link of their own, so that slow calls cannot delay them.
  RedisLockStore(std::shared_ptr<RedisLink> link, std::shared_ptr<RedisLink> renewal_link,
                 const Options& options);

  AcquireOutcome acquire(const AcquireRequest& request) override;
  std::vector<std::optional<FencingToken>> acquire_free(
      std::span<const AcquireRequest> requests) override;
  void renew(std::span<LockRenewal> renewals, std::chrono::milliseconds timeout) override;
  std::string server_of(std::string_view name) override;
  std::vector<Standing> verify(std::span<const GrantId> grants,
                               std::chrono::milliseconds timeout) override;
  ReleaseResult release(std::string_view name, std::string_view owner) override;
  std::vector<ReleaseResult> release_all(std::span<const GrantId> grants) override;
  void decline(const GrantId& offer) override;
  RenewalResult downgrade(const LockRenewal& renewal) override;
  void resize(std::string_view name, int permits) override;
  void watch_lines(std::span<LineWatch> lines) override;
  std::unique_ptr<LockListener> listen(std::function<void(const LockMessage&)> handler) override;
  StoreCounts counts() const override { return {.waiters_evicted = evicted_.load()}; }
  std::chrono::milliseconds timeout() const override { return timeout_; }
  std::optional<LockRecord> status(std::string_view name) override;
  void visit(std::string_view pattern,
             const std::function<bool(const LockRecord&)>& visitor) override;
  std::vector<LockRecord> remove_stale(std::string_view pattern) override;
  std::optional<LockRecord> force_release(std::string_view name) override;
  std::string where() const override { return link_->where(); }

 private:
  struct FreeLock;
  AcquireOutcome contend(const AcquireRequest& request, Attempt attempt, Join join);
  ReleaseResult to_release_result(const RedisReply& reply);
  long long give_up_at(std::string_view key) const;
  [[noreturn]] void throw_late() const;
  void check_replicated(const RedisReply& grant) const;
  std::string value_for(const AcquireRequest& request) const;
  std::string value_for(const LockRenewal& renewal) const;
  void visit_stored(std::string_view pattern,
                    const std::function<bool(const StoredLock&)>& visitor);
  bool visit_stored_in(RedisLink& server, std::string_view pattern,
                       const std::function<bool(const StoredLock&)>& visitor);

  const std::shared_ptr<RedisLink> link_;
  const std::shared_ptr<RedisLink> renewal_link_;
  const RunnerId runner_;
  const std::string client_;  // names our channel
  const std::chrono::milliseconds linger_;
  const std::chrono::milliseconds timeout_;
  const RedisReplicas replicas_;
  const LockValueWriter writer_;
  AwaitedOwners awaited_;
  std::atomic<std::uint64_t> evicted_{0};
};

}  // namespace leasehold::inline v0::redis
