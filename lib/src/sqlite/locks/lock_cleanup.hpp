#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "sqlite/locks/lock_line.hpp"

namespace leasehold::inline v0::sqlite {

/// Removes the expired records and unused tokens of the next names after `last`, and keeps their
/// lines moving. Returns the last of these names; empty if there are no more. A page at a time,
/// so that no transaction is long.
std::string clean_page(Transaction& transaction, LockEffects& effects, std::string_view last,
                       std::chrono::milliseconds keep_counters);

}  // namespace leasehold::inline v0::sqlite
