#pragma once

namespace leasehold::testing {

/// What a restarted server still knows.
enum class Data { kept, lost };

}  // namespace leasehold::testing
