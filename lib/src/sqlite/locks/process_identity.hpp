#pragma once

#include <string>
#include <string_view>

namespace leasehold::inline v0::sqlite {

/// Names this process among all of the machine, those that had its pid before included.
std::string process_identity();

/// Whether the process of that name has certainly ended. One that we cannot see, as in another
/// container, may live.
bool has_ended(std::string_view process_identity);

}  // namespace leasehold::inline v0::sqlite
