#include "locks/janitor.hpp"

#include <spdlog/logger.h>

#include "leasehold/errors.hpp"
#include "locks/lock_store.hpp"
#include "support/backoff.hpp"

namespace leasehold::inline v0 {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

Janitor::Janitor(LockStore& store, std::shared_ptr<spdlog::logger> logger)
    : store_(store), logger_(std::move(logger)) {}

Janitor::~Janitor() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  for (const Orphan& orphan : orphans_) {
    logger_->warn("lock not released name={} reason=\"client closed\"", orphan.name);
  }
}

void Janitor::release_later(std::string name, std::string owner, TimePoint lease_end) {
  {
    const std::lock_guard guard(mutex_);
    orphans_.push_back({std::move(name), std::move(owner), lease_end});
    if (!thread_.joinable()) {
      thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
    }
  }
  changed_.notify_one();
}

void Janitor::run(const std::stop_token& stop) {
  Backoff backoff{milliseconds{20}, milliseconds{1'000}};
  std::unique_lock guard(mutex_);
  while (changed_.wait(guard, stop, [this] { return !orphans_.empty(); }) &&
         !stop.stop_requested()) {
    const Orphan orphan = orphans_.front();
    guard.unlock();
    const bool done = release(orphan);
    guard.lock();
    orphans_.pop_front();
    if (done) {
      backoff.reset();
      continue;
    }
    orphans_.push_back(orphan);
    changed_.wait_for(guard, stop, backoff.next(), [] { return false; });
  }
}

/// Whether the orphan needs no further care.
bool Janitor::release(const Orphan& orphan) noexcept {
  try {
    store_.release(orphan.name, orphan.owner);
    return true;
  } catch (const std::exception& error) {
    const auto* refused = dynamic_cast<const ServerRefused*>(&error);
    const bool hopeless = refused != nullptr && !refused->transient();
    if (!hopeless && steady_clock::now() < orphan.lease_end) return false;
    logger_->warn("lock not released, it ends with its lease name={} reason=\"{}\"", orphan.name,
                  error.what());
    return true;
  }
}

}  // namespace leasehold::inline v0
