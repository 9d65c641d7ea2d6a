#pragma once

namespace leasehold::harness {

/// What a restarted server still knows.
enum class Data { kept, lost };

}  // namespace leasehold::harness
