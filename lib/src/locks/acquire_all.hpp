#pragma once

#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "leasehold/lock_set.hpp"
#include "locks/attempts.hpp"
#include "locks/lock_core.hpp"

namespace leasehold::inline v0 {

/// One call of LockClient::acquire_all(). However it ends, it leaves nothing in the store that
/// nobody holds.
class AcquireAllCall {
 public:
  /// Throws InvalidArgument.
  AcquireAllCall(std::shared_ptr<LockCore> core, std::vector<std::string> names,
                 const LockOptions& options, std::stop_token stop);

  SetAcquisition run();

 private:
  /// One batch of requests, for all locks that are not held yet.
  struct Batch {
    std::vector<std::string> owners;
    std::vector<AcquireRequest> requests;
    Grant::TimePoint sent{};
  };

  SetAcquisition try_until_all_are_held();
  std::optional<std::vector<std::string>> take_those_free(std::vector<Lock>& held);
  Batch make_batch(const std::vector<Lock>& held) const;
  void take_back(const Batch& batch) noexcept;
  Lock hold(const AcquireRequest& request, FencingToken token, Grant::TimePoint sent);
  std::optional<LockSet> accept(std::vector<Lock> held);
  LockOptions options_for_one() const;
  void record_all(LockEventType type) noexcept;

  const std::shared_ptr<LockCore> core_;
  const std::vector<std::string> names_;  // sorted, each once
  const LockOptions options_;
  const std::string metadata_;
  const std::chrono::milliseconds ttl_;

  Attempts attempts_;
  std::string waited_for_;  // the lock whose AcquireCall has recorded the failure already
};

}  // namespace leasehold::inline v0
