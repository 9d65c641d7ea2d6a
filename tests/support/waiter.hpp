#pragma once

#include <chrono>
#include <exception>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "leasehold/locks.hpp"
#include "tests/support/signal.hpp"

namespace leasehold::testing {

/// Who has, or was granted, the lock in this moment: the word it gave as "id". Right after a
/// release that is the one to which the line handed it, for that happens in the same script.
inline std::string holder_of(LockClient& client, const std::string& name) {
  const auto record = client.status(name);
  if (!record) return "nobody";
  const auto id = record->metadata.find("id");
  return id == record->metadata.end() ? "somebody" : id->second;
}

inline std::uint64_t line_length(LockClient& client, const std::string& name) {
  const auto record = client.status(name);
  return record ? record->waiter_count : 0;
}

/// An acquire on a thread of its own. Cancelled by the destructor.
class Waiter {
 public:
  using Clock = std::chrono::steady_clock;
  /// What it does with the lock: keep it, or release it at once.
  enum class Then { hold, pass };

  Waiter(LockClient& client, const std::string& name, LockOptions options, Then then = Then::hold)
      : thread_(
            [this, &client, name, options = std::move(options), then](const std::stop_token& stop) {
              try {
                auto acquired = client.acquire(name, options, stop);
                if (acquired) {
                  lock_.emplace(*std::move(acquired));
                  if (then == Then::pass) lock_->release();
                } else {
                  refusal_ = acquired.refusal();
                }
              } catch (...) {
                error_ = std::current_exception();
              }
              ended_at_ = Clock::now();
              ended_.set();
            }) {}

  void cancel() { thread_.request_stop(); }

  /// Waits for the end of the acquire. Throws what it threw.
  bool got_it() {
    if (!ended_.wait()) throw std::runtime_error("the acquire does not end");
    if (error_) std::rethrow_exception(error_);
    return lock_.has_value();
  }

  /// The lock that it got.
  Lock& lock() {
    if (!got_it()) throw std::runtime_error("the acquire was refused");
    return *lock_;
  }
  void release() { lock().release(); }

  const Refusal& refusal() {
    if (got_it()) throw std::runtime_error("the acquire was not refused");
    return refusal_;
  }

  Clock::time_point ended_at() {
    got_it();
    return ended_at_;
  }

 private:
  Signal ended_;
  std::optional<Lock> lock_;
  Refusal refusal_;
  std::exception_ptr error_;
  Clock::time_point ended_at_{};
  std::jthread thread_;  // the last: it uses the others
};

}  // namespace leasehold::testing
