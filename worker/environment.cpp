#include "environment.hpp"

#include <unistd.h>

#include <string_view>

namespace leasehold::worker {

Environment our_environment() {
  Environment environment;
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (!text.starts_with("LEASEHOLD_") || equals == text.npos) continue;
    // Empty is as good as not there: container tools can not unset a variable.
    if (equals + 1 < text.size())
      environment[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  return environment;
}

}  // namespace leasehold::worker
