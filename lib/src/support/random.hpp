#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "support/internal_api.hpp"

namespace leasehold::inline v0 {

/// Lower-case hex of `bytes` random bytes from the kernel. Unlike a generator of our own, the
/// kernel gives parent and child of a fork() different bytes.
LEASEHOLD_INTERNAL_API std::string random_hex(std::size_t bytes);

/// A random number from the kernel, at least 1.
LEASEHOLD_INTERNAL_API std::int64_t random_number();

/// A random number in [0, 1), for jitter only.
LEASEHOLD_INTERNAL_API double random_share();

}  // namespace leasehold::inline v0
