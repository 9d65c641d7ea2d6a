#include "locks/janitor.hpp"

#include <spdlog/logger.h>

#include "leasehold/errors.hpp"
#include "locks/lock_store.hpp"
#include "support/backoff.hpp"

namespace leasehold::inline v0 {

using std::chrono::milliseconds;

Janitor::Janitor(LockStore& store, std::shared_ptr<spdlog::logger> logger)
    : store_(store), logger_(std::move(logger)) {}

Janitor::~Janitor() {
  stop_thread();
  const ThreadLock lock(mutex_);
  for (const Orphan& orphan : orphans_) {
    logger_->warn("lock not released name={} reason=\"client closed\"", orphan.name);
  }
}

void Janitor::stop_thread() {
  std::jthread thread;  // joined without the mutex, which it needs to come to its end
  const ThreadLock lock(mutex_);
  thread = std::move(thread_);
}

void Janitor::release_later(std::string name, std::string owner, TimePoint until) {
  {
    const ThreadLock lock(mutex_);
    orphans_.push_back({std::move(name), std::move(owner), until});
    if (!thread_.joinable()) {
      thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
    }
  }
  changed_.notify_one();
}

void Janitor::run(const std::stop_token& stop) {
  Backoff backoff{milliseconds{20}, milliseconds{1'000}};
  ThreadLock lock(mutex_);
  const auto has_work = [this]() LEASEHOLD_REQUIRES(mutex_) { return !orphans_.empty(); };
  while (changed_.wait(lock, stop, has_work) && !stop.stop_requested()) {
    const Orphan orphan = orphans_.front();
    lock.unlock();
    const bool done = release(orphan);
    lock.lock();
    orphans_.pop_front();
    if (done) {
      backoff.reset();
      continue;
    }
    orphans_.push_back(orphan);
    changed_.wait_for(lock, stop, backoff.next(), [] { return false; });
  }
}

/// Returns whether the orphan needs no further care.
bool Janitor::release(const Orphan& orphan) noexcept {
  try {
    store_.release(orphan.name, orphan.owner);
    return true;
  } catch (const std::exception& error) {
    const auto* refused = dynamic_cast<const ServerRefused*>(&error);
    const bool is_permanent = refused != nullptr && !refused->transient();
    if (!is_permanent && BootClock::now() < orphan.until) return false;
    logger_->warn("lock not released, it ends with its ttl name={} reason=\"{}\"", orphan.name,
                  error.what());
    return true;
  }
}

}  // namespace leasehold::inline v0
