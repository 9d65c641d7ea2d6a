#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "leasehold/runner_id.hpp"
#include "locks/lock_store.hpp"
#include "sqlite/database/database.hpp"
#include "sqlite/database/watcher.hpp"
#include "sqlite/locks/lock_line.hpp"

namespace leasehold::inline v0::sqlite {

/// Locks in a SQLite database: a row for each holder and each waiter, and one for each name with
/// its latest token. Each call is one immediate transaction; giving a lock back that nobody
/// waits for is one statement, taking one that is free three.
///
/// Those who are granted a lock, or lose one, are told through the hub if they are of this process.
/// For others word is left in a table, which they read when they see that the file has changed: who
/// was ousted has no row any more that could tell it.
class SqliteLockStore final : public LockStore {
 public:
  struct Options {
    RunnerId runner;
    std::chrono::milliseconds linger;         ///< see LockClientOptions::keep_stale_records
    std::chrono::milliseconds keep_counters;  ///< see LockClientOptions::keep_counters
    std::chrono::milliseconds timeout;        ///< how long a call tries while others are in the way
    std::string boot_id;                      ///< see OpenOptions
  };

  SqliteLockStore(const SqliteUri& uri, const Options& options);

  std::optional<FencingToken> take_free(const LockClaim& claim) override;
  std::vector<std::optional<FencingToken>> take_free(std::span<const LockClaim> claims) override;
  ClaimOutcome claim(const LockClaim& claim) override;
  void renew(std::span<LockRenewal> renewals, std::chrono::milliseconds timeout) override;
  std::vector<Standing> verify(std::span<const LockGrantId> grants,
                               std::chrono::milliseconds timeout) override;
  ReleaseResult release(std::string_view name, std::string_view owner) override;
  std::vector<ReleaseResult> release_all(std::span<const LockGrantId> grants) override;
  RenewalResult downgrade(const LockRenewal& renewal) override;
  void resize(std::string_view name, int permits) override;
  void watch_lines(std::span<LineWatch> lines) override;
  std::unique_ptr<LockListener> listen(std::function<void(const LockMessage&)> handler) override;
  StoreCounts counts() const override { return {evicted_.load(), database_->busy_retries()}; }
  std::chrono::milliseconds timeout() const override { return timeout_; }
  std::optional<LockRecord> status(std::string_view name) override;
  void visit(std::string_view pattern,
             const std::function<bool(const LockRecord&)>& visitor) override;
  std::vector<LockRecord> remove_stale(std::string_view pattern) override;
  std::optional<LockRecord> force_release(std::string_view name) override;
  std::string where() const override { return database_->where(); }

 private:
  class Listener;

  template <class Fn>
  auto change(Fn&& fn);
  template <class Fn>
  auto change(std::chrono::milliseconds timeout, Fn&& fn);
  void post(Transaction& transaction, const LockEffects& effects);
  void deliver(const LockEffects& effects);
  std::optional<FencingToken> take_free(Transaction& transaction, const LockClaim& claim);
  ReleaseResult release(Transaction& transaction, const LockGrantId& grant, LockEffects& effects);
  RenewalResult renew(Transaction& transaction, const LockRenewal& renewal, const Moment& moment);
  void sweep_now_and_then();
  void sweep();

  const Claimant claimant_;
  const std::chrono::milliseconds keep_counters_;
  const std::chrono::milliseconds timeout_;
  const std::shared_ptr<Database> database_;
  std::atomic<std::uint64_t> evicted_{0};

  std::atomic<std::int64_t> sweep_at_;  // ms since boot
  std::mutex sweep_mutex_;
  std::string swept_up_to_;  // a name; protected by sweep_mutex_

  const std::shared_ptr<Activity> activity_ = std::make_shared<Activity>();
};

}  // namespace leasehold::inline v0::sqlite
