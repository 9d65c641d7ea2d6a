#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "duel.hpp"
#include "leasehold/lock_client.hpp"
#include "lock_cases/cases.hpp"

namespace leasehold::bench {

/// The locks that this thread takes in turn, and no other thread.
std::vector<std::string> lock_names(std::size_t thread);

/// For each thread a step that acquires and releases its next lock.
std::vector<Step> pairs(LockClient& client, std::size_t threads);

/// Both sides do their pairs in turns. If they use the same server, what a pair costs is measured
/// as well.
Result compare_pairs(LockBench& bench, const std::string& name, std::vector<Step> ours,
                     std::vector<Step> reference, std::optional<pid_t> server);

}  // namespace leasehold::bench
