#include "leasehold/shared_lock.hpp"

#include "leasehold/errors.hpp"
#include "leasehold/lock_client.hpp"
#include "locks/acquire.hpp"
#include "locks/lock_core.hpp"
#include "locks/validation.hpp"

namespace leasehold::inline v0 {
namespace {

int checked_permits(int permits) {
  if (permits < 1 || permits > 1'000'000) {
    throw InvalidArgument("permits must be 1 to 1000000, got " + std::to_string(permits));
  }
  return permits;
}

}  // namespace

SharedLock::SharedLock(const LockClient& client, std::string name)
    : core_(client.core_), name_(std::move(name)) {
  check_lock_name(name_);
}

Acquisition SharedLock::read(const LockOptions& options, std::stop_token stop) {
  check_lock_options(options);
  return AcquireCall{core_, name_, options, std::move(stop), {LockKind::shared}}.run();
}

Acquisition SharedLock::write(const LockOptions& options, std::stop_token stop) {
  check_lock_options(options);
  return AcquireCall{core_, name_, options, std::move(stop), {LockKind::exclusive}}.run();
}

Semaphore::Semaphore(const LockClient& client, std::string name, int permits)
    : core_(client.core_),
      name_(std::move(name)),
      permits_(std::make_shared<std::atomic<int>>(checked_permits(permits))) {
  check_lock_name(name_);
}

Acquisition Semaphore::acquire(const LockOptions& options, std::stop_token stop) {
  check_lock_options(options);
  return AcquireCall{core_, name_, options, std::move(stop), {LockKind::shared, permits()}}.run();
}

void Semaphore::resize(int permits) {
  core_->store->resize(name_, checked_permits(permits));
  permits_->store(permits);
}

}  // namespace leasehold::inline v0
