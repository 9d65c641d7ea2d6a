#include "locks/janitor.hpp"

#include <spdlog/logger.h>

#include "leasehold/errors.hpp"
#include "locks/line_rules.hpp"
#include "locks/lock_store.hpp"
#include "support/backoff.hpp"
#include "support/log_event.hpp"
#include "support/start_thread.hpp"

namespace leasehold::inline v0 {

using std::chrono::milliseconds;

namespace {

constexpr std::chrono::seconds time_between_warnings{10};
constexpr std::size_t most_before_an_offer = 1'000;

}  // namespace

Janitor::Janitor(LockStore& store, std::shared_ptr<spdlog::logger> logger)
    : store_(store), logger_(std::move(logger)) {}

Janitor::~Janitor() {
  stop_thread();
  const ThreadLock lock(mutex_);
  for (const Orphan& orphan : orphans_) {
    if (orphan.what == What::offer) continue;  // it ends within seconds
    log_warn(*logger_, "lock not released", {{"name", orphan.name}, {"reason", "client closed"}});
  }
}

void Janitor::stop_thread() {
  std::jthread thread;  // joined without the mutex, which it needs to come to its end
  const ThreadLock lock(mutex_);
  thread = std::move(thread_);
}

void Janitor::release_later(std::string name, std::string owner, TimePoint until) noexcept {
  add({What::grant, std::move(name), std::move(owner), until});
}

void Janitor::decline_later(std::string name, std::string owner) noexcept {
  add({What::offer, std::move(name), std::move(owner),
       BootClock::now() + line_rules::time_to_show});
}

void Janitor::add(Orphan orphan) noexcept {
  try {
    const ThreadLock lock(mutex_);
    // Offers end by themselves, so that a flood of them can be let go.
    if (orphan.what == What::offer && orphans_.size() >= most_before_an_offer) return;
    orphans_.push_back(std::move(orphan));
    start();
    changed_.notify_one();
  } catch (const std::exception& error) {
    log_warn(*logger_, "lock not released yet", {{"reason", error.what()}});
  }
}

void Janitor::start() {
  if (thread_.joinable()) return;
  lacks_thread_ = true;
  thread_ = start_thread("that releases locks", [this](const std::stop_token& stop) { run(stop); });
  lacks_thread_ = false;
}

void Janitor::resume() noexcept {
  if (!lacks_thread_.load(std::memory_order_relaxed)) return;
  try {
    const ThreadLock lock(mutex_);
    start();
  } catch (const std::exception&) {
    // The next call tries again.
  }
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
  if (orphan.what == What::offer && BootClock::now() >= orphan.until) return true;
  try {
    if (orphan.what == What::grant) {
      store_.release(orphan.name, orphan.owner);
    } else {
      store_.decline({orphan.name, orphan.owner});
    }
    return true;
  } catch (const std::exception& error) {
    const auto* refused = dynamic_cast<const ServerRefused*>(&error);
    const bool is_permanent = refused != nullptr && !refused->transient();
    if (!is_permanent && BootClock::now() < orphan.until) return false;
    if (orphan.what == What::grant) warn(orphan, error.what());
    return true;
  }
}

/// A server that refuses everything must not fill the log.
void Janitor::warn(const Orphan& orphan, const char* why) {
  if (BootClock::now() < next_warning_) {
    ++unsaid_;
    return;
  }
  log_warn(*logger_, "lock not released, it ends with its ttl",
           {{"name", orphan.name}, {"reason", why}, {"also", std::exchange(unsaid_, 0)}});
  next_warning_ = BootClock::now() + time_between_warnings;
}

}  // namespace leasehold::inline v0
