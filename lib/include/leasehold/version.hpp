#pragma once

#include "leasehold/export.hpp"

namespace leasehold::inline v0 {

/// The library's version, "major.minor.patch".
LEASEHOLD_API const char* version() noexcept;

}  // namespace leasehold::inline v0
