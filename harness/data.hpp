#pragma once

namespace leasehold::harness {

/// Whether a restarted server still has its data.
enum class Data { kept, lost };

}  // namespace leasehold::harness
