#include "leasehold/histogram.hpp"

namespace leasehold::inline v0 {

std::chrono::microseconds Histogram::quantile(double share) const noexcept {
  const double wanted = share * static_cast<double>(count);
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    seen += buckets[i];
    if (count > 0 && static_cast<double>(seen) >= wanted) return bounds[i];
  }
  return count == 0 ? std::chrono::microseconds{0} : bounds.back();
}

}  // namespace leasehold::inline v0
