#include "leasehold/version.hpp"

namespace leasehold {

const char* version() noexcept { return LEASEHOLD_VERSION; }

}  // namespace leasehold
