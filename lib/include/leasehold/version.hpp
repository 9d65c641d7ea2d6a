#pragma once

namespace leasehold {

/// The library's version, "major.minor.patch".
const char* version() noexcept;

}  // namespace leasehold
