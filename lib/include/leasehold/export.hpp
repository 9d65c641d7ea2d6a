#pragma once

/// Marks what the shared libraries export. Everything else is hidden.
#define LEASEHOLD_API __attribute__((visibility("default")))
