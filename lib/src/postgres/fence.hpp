#pragma once

#include <cstdint>
#include <string_view>

namespace pqxx {
class transaction_base;
}

namespace leasehold::inline v0::postgres {

/// Throws StaleToken if a newer token was seen for the resource.
void fence(pqxx::transaction_base& transaction, std::string_view resource, std::int64_t token,
           std::string_view schema);

}  // namespace leasehold::inline v0::postgres
