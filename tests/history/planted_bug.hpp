#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "leasehold/redis_link.hpp"

namespace leasehold::testing {

/// A mistake in the scripts, to show that the history checker finds it.
enum class PlantedBug {
  none,
  release_without_compare,  ///< whoever gives back, frees whatever is there
  acquire_without_free,     ///< takes the lock even if somebody has it
  writer_beside_readers,    ///< shared holders do not keep an exclusive one out
  permits_without_limit,    ///< one more permit, always
  tokens_from_one,          ///< a counter that is missing starts again
  lease_too_short,          ///< Redis thinks a lease over before its holder does
  renewal_without_compare,  ///< a heartbeat brings the lock back, whoever has it by now
  renewal_after_the_end,    ///< a heartbeat prolongs a lease that has ended
  tokens_of_older_data,     ///< a server that continues with older data repeats tokens
};

const char* to_string(PlantedBug bug);
/// Throws std::invalid_argument for an unknown name.
PlantedBug planted_bug(std::string_view name);
std::vector<PlantedBug> all_planted_bugs();

/// A link that lends `link` but runs the scripts with the bug in them.
std::shared_ptr<RedisLink> plant(PlantedBug bug, std::shared_ptr<RedisLink> link);

}  // namespace leasehold::testing
