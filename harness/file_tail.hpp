#pragma once

#include <filesystem>
#include <string>

namespace leasehold::harness {

/// The end of a log file, for the message of a failure. Empty when there is none.
std::string file_tail(const std::filesystem::path& path);

}  // namespace leasehold::harness
