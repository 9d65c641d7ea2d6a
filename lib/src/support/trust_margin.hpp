#pragma once

#include <chrono>

namespace leasehold::inline v0 {

/// How much less of a `ttl` its holder trusts than the store grants. It covers clocks that run at
/// different speeds, and the granularity with which the store lets things expire.
constexpr std::chrono::milliseconds trust_margin(std::chrono::milliseconds ttl) noexcept {
  return ttl / 100 + std::chrono::milliseconds{2};
}

}  // namespace leasehold::inline v0
