#pragma once

#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "leasehold/lock_set.hpp"
#include "locks/lock_core.hpp"
#include "support/backoff.hpp"

namespace leasehold::inline v0 {

/// One call of LockClient::acquire_all(). Whatever its end is, nothing is left in the store that
/// nobody holds.
class AcquireAllCall {
 public:
  /// Throws InvalidArgument.
  AcquireAllCall(std::shared_ptr<LockCore> core, std::vector<std::string> names,
                 const LockOptions& options, std::stop_token stop);

  SetAcquisition run();

 private:
  SetAcquisition try_until_all_are_held();
  std::optional<std::vector<std::string>> take_those_free(std::vector<Lock>& held);
  std::vector<LockClaim> claim_all_but(const std::vector<Lock>& held,
                                       std::vector<std::string>& owners) const;
  void take_back(std::span<const LockClaim> claims, Lease::TimePoint sent) noexcept;
  Lock hold(const LockClaim& claim, FencingToken token, Lease::TimePoint sent);
  std::optional<LockSet> accept(std::vector<Lock> held);
  LockOptions options_for_one() const;
  void pause_after_error();
  void tell_all(LockEventType type) noexcept;
  std::chrono::milliseconds time_left() const;
  std::chrono::microseconds elapsed() const;

  const std::shared_ptr<LockCore> core_;
  const std::vector<std::string> names_;  // sorted, each once
  const LockOptions options_;
  const std::string metadata_;
  const std::stop_token stop_;
  const std::chrono::milliseconds ttl_;
  const Lease::TimePoint started_;
  const Lease::TimePoint deadline_;

  Backoff error_backoff_;
  int lost_replies_ = 0;
  std::string waited_for_;  // the one whose failure was told already
};

}  // namespace leasehold::inline v0
