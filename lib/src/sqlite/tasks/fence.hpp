#pragma once

#include <cstdint>
#include <string_view>

struct sqlite3;

namespace leasehold::inline v0::sqlite {

/// Throws StaleToken if a newer token was seen for the resource.
void fence(sqlite3* transaction, std::string_view resource, std::int64_t token);

}  // namespace leasehold::inline v0::sqlite
