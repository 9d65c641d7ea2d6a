#pragma once

#include <optional>
#include <string_view>

#include "leasehold/migrate.hpp"

namespace leasehold::inline v0::sqlite {

/// leasehold::migrate() for a file. Nothing if `uri` does not begin with sqlite:.
std::optional<MigrateReport> migrate(std::string_view uri);

}  // namespace leasehold::inline v0::sqlite
