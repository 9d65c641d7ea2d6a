#include "common/environment.hpp"

#include <unistd.h>

#include <string_view>

namespace leasehold::common {

Environment our_environment() {
  Environment environment;
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (!text.starts_with("LEASEHOLD_") || equals == text.npos) continue;
    // An empty variable counts as not set: container tools cannot unset one.
    if (equals + 1 == text.size()) continue;
    environment[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  return environment;
}

}  // namespace leasehold::common
