#pragma once

#include <cstddef>
#include <string>

namespace leasehold::inline v0 {

/// Lower-case hex of `bytes` random bytes from the kernel: unlike a generator of our own it stays
/// unique across fork().
std::string random_hex(std::size_t bytes);

/// A random number in [0, 1), for jitter only.
double random_share();

}  // namespace leasehold::inline v0
