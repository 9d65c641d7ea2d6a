#include "leasehold/version.hpp"

namespace leasehold::inline v0 {

const char* version() noexcept { return LEASEHOLD_VERSION; }

}  // namespace leasehold::inline v0
