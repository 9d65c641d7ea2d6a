#include "leasehold/lock.hpp"

namespace leasehold::inline v0 {

const char* to_string(LockState state) noexcept {
  return state == LockState::held ? "held" : "stale";
}

const char* to_string(LossReason reason) noexcept {
  switch (reason) {
    case LossReason::none:
      return "none";
    case LossReason::expired:
      return "expired";
    case LossReason::taken:
      return "taken";
    case LossReason::vanished:
      return "vanished";
    case LossReason::max_hold:
      return "max_hold";
  }
  return "?";
}

const char* to_string(Ownership ownership) noexcept {
  switch (ownership) {
    case Ownership::held:
      return "held";
    case Ownership::lost:
      return "lost";
    case Ownership::unknown:
      return "unknown";
  }
  return "?";
}

const char* to_string(Release release) noexcept {
  switch (release) {
    case Release::done:
      return "done";
    case Release::was_lost:
      return "was_lost";
    case Release::unknown:
      return "unknown";
  }
  return "?";
}

}  // namespace leasehold::inline v0
