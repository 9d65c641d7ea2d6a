#pragma once

#include <map>
#include <string>
#include <string_view>

namespace leasehold::worker {

/// A value as somebody wrote it, and where: "leaseholdd.conf:12", "--schema", …
struct Written {
  std::string text;
  std::string source;
};

using Values = std::map<std::string, Written>;

/// What one source says: the flags, the environment or the file.
struct Layer {
  Values general;
  std::map<std::string, Values> queues;  ///< by the queue's name
};

/// Reads a config file: lines `key = value`, sections `[queue NAME]`, comments after #. A value may
/// stand in double quotes. Throws InvalidArgument with the file, the line and what is wrong.
///
/// Not CLI11's own reader: that one ignores what it does not understand, knows no lines, and puts
/// the file before the environment.
Layer read_config_file(const std::string& path);

/// Reads `NAME [key=value]…`, several separated by semicolons: what --queue and LEASEHOLD_QUEUES
/// say. Throws InvalidArgument.
std::map<std::string, Values> parse_queues(std::string_view text, const std::string& source);

}  // namespace leasehold::worker
