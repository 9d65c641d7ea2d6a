#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "leasehold/export.hpp"

namespace leasehold::inline v0 {

/// A snapshot of how long something took. Buckets are not cumulative: each counts only the values
/// that fall into it.
struct LEASEHOLD_API Histogram {
  /// Upper bounds (inclusive) of the buckets; one more bucket counts everything above.
  static constexpr std::array<std::chrono::microseconds, 16> bounds{
      std::chrono::microseconds{50},
      std::chrono::microseconds{100},
      std::chrono::microseconds{250},
      std::chrono::microseconds{500},
      std::chrono::microseconds{1'000},
      std::chrono::microseconds{2'500},
      std::chrono::microseconds{5'000},
      std::chrono::microseconds{10'000},
      std::chrono::microseconds{25'000},
      std::chrono::microseconds{100'000},
      std::chrono::microseconds{250'000},
      std::chrono::microseconds{1'000'000},
      std::chrono::seconds{5},
      std::chrono::seconds{30},
      std::chrono::minutes{5},
      std::chrono::hours{1}};

  std::array<std::uint64_t, bounds.size() + 1> buckets{};
  std::uint64_t count = 0;
  std::chrono::microseconds sum{0};

  /// The upper bound of the bucket that contains the given quantile, from 0 to 1.
  std::chrono::microseconds quantile(double share) const noexcept;
};

}  // namespace leasehold::inline v0
