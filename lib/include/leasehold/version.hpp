#pragma once

#include "leasehold/export.hpp"

namespace leasehold::inline v0 {

/// The version of the library, "major.minor.patch".
LEASEHOLD_API const char* version() noexcept;

}  // namespace leasehold::inline v0
