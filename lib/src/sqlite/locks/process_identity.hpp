#pragma once

#include <string>
#include <string_view>

#include "support/internal_api.hpp"

namespace leasehold::inline v0::sqlite {

/// Names this process among all of the machine, those that had its pid before included.
LEASEHOLD_INTERNAL_API std::string process_identity();

/// Whether the process of that name has certainly ended. One that we cannot see, as in another
/// container, may live.
LEASEHOLD_INTERNAL_API bool has_ended(std::string_view process_identity);

}  // namespace leasehold::inline v0::sqlite
