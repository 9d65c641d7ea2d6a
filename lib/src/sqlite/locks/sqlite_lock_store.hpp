#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "leasehold/runner_id.hpp"
#include "locks/lock_store.hpp"
#include "sqlite/database/database.hpp"
#include "sqlite/database/watcher.hpp"
#include "sqlite/locks/lock_line.hpp"
#include "support/thread_safety.hpp"

namespace leasehold::inline v0::sqlite {

/// Locks in a SQLite database: a row for each holder and each waiter, and one for each name with
/// its latest token. Each call is one immediate transaction. Taking a free lock costs three
/// statements, and giving back a lock that nobody waits for costs one.
///
/// Clients of this process get their messages through the hub. Those for other processes are
/// written into a table, which they read when they see that the file has changed: a holder that was
/// ousted has no row left that could tell it.
class SqliteLockStore final : public LockStore {
 public:
  struct Options {
    RunnerId runner;
    std::chrono::milliseconds linger;         ///< see LockClientOptions::keep_stale_records
    std::chrono::milliseconds keep_counters;  ///< see LockClientOptions::keep_counters
    std::chrono::milliseconds timeout;        ///< how long a call retries while others block it
    std::string boot_id;                      ///< see OpenOptions
  };

  SqliteLockStore(const SqliteUri& uri, const Options& options);

  AcquireOutcome acquire(const AcquireRequest& request) override;
  std::vector<std::optional<FencingToken>> acquire_free(
      std::span<const AcquireRequest> requests) override;
  void renew(std::span<LockRenewal> renewals, std::chrono::milliseconds timeout) override;
  std::vector<Standing> verify(std::span<const GrantId> grants,
                               std::chrono::milliseconds timeout) override;
  ReleaseResult release(std::string_view name, std::string_view owner) override;
  std::vector<ReleaseResult> release_all(std::span<const GrantId> grants) override;
  void decline(const GrantId& offer) override;
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
  template <class Fn>
  auto change(Fn&& fn);
  template <class Fn>
  auto change(std::chrono::milliseconds timeout, Fn&& fn);
  void post(Transaction& transaction, const LockEffects& effects);
  void deliver(const LockEffects& effects);
  std::optional<FencingToken> take_free(Transaction& transaction, const AcquireRequest& request);
  ReleaseResult release(Transaction& transaction, const GrantId& grant, LockEffects& effects);
  AcquireOutcome contend(const AcquireRequest& request, Attempt attempt, Join join);
  RenewalResult renew(Transaction& transaction, const LockRenewal& renewal,
                      const ClockReading& clock);
  /// Removes what nobody needs any more, a few names at a time, so that a database in which many
  /// names are used once does not grow for ever.
  void clean_up_now_and_then() LEASEHOLD_EXCLUDES(clean_up_mutex_);

  const ClientIdentity identity_;
  const std::chrono::milliseconds keep_counters_;
  const std::chrono::milliseconds timeout_;
  const std::shared_ptr<Database> database_;
  std::atomic<std::uint64_t> evicted_{0};

  std::atomic<std::int64_t> clean_up_at_;  // ms since boot
  ThreadMutex clean_up_mutex_;
  std::string cleaned_up_to_ LEASEHOLD_GUARDED_BY(clean_up_mutex_);  // a name

  const std::shared_ptr<Activity> activity_ = std::make_shared<Activity>();
};

}  // namespace leasehold::inline v0::sqlite
