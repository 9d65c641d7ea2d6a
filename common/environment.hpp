#pragma once

#include <map>
#include <string>

namespace leasehold::common {

using Environment = std::map<std::string, std::string>;

/// The variables of this process that begin with LEASEHOLD_ and are not empty.
Environment our_environment();

}  // namespace leasehold::common
