#pragma once

#include "leasehold/export.hpp"

/// Marks what Leasehold's own libraries and programs use of each other. Shared libraries must
/// export it, but it is no part of the interface: no public header declares it, and any version may
/// change it.
#define LEASEHOLD_INTERNAL_API LEASEHOLD_API
