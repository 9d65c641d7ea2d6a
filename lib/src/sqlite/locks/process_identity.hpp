#pragma once

#include <string>
#include <string_view>

namespace leasehold::inline v0::sqlite {

/// Identifies this process on this machine, even among those that had its pid before.
std::string process_identity();

/// Whether that process has certainly ended. A process that we cannot see, such as one in another
/// container, may be alive.
bool has_ended(std::string_view process_identity);

}  // namespace leasehold::inline v0::sqlite
