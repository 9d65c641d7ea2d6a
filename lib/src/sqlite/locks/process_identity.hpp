#pragma once

#include <string>
#include <string_view>

namespace leasehold::inline v0::sqlite {

/// Identifies this process on this machine, even among those that had its pid before.
std::string process_identity();

/// Whether that process has certainly ended. A process that we cannot see, such as one in another
/// container, may be alive.
bool has_ended(std::string_view process_identity);

/// The process of a client, which is named `<id>@<process identity>`.
inline std::string_view process_of(std::string_view client) {
  return client.substr(client.find('@') + 1);
}

}  // namespace leasehold::inline v0::sqlite
