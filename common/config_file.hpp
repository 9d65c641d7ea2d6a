#pragma once

#include <map>
#include <string>
#include <string_view>

namespace leasehold::common {

/// A value as the user wrote it, and where: "leaseholdd.conf:12", "--schema", …
struct Written {
  std::string text;
  std::string source;
};

using Values = std::map<std::string, Written>;

/// What one source says: the flags, the environment or the file.
struct Layer {
  Values general;
  std::map<std::string, Values> queues;  ///< by the name of the queue
};

/// Reads a config file: lines `key = value`, sections `[queue NAME]`, comments after #. A value may
/// be in double quotes. Throws InvalidArgument with the file, the line and the mistake.
///
/// Why not CLI11's own reader: it ignores what it does not understand, does not know the numbers of
/// the lines, and gives the file precedence over the environment.
Layer read_config_file(const std::string& path);

/// Reads the value of --queue or LEASEHOLD_QUEUES: `NAME [key=value]…`, several separated by
/// semicolons. Throws InvalidArgument.
std::map<std::string, Values> parse_queues(std::string_view text, const std::string& source);

}  // namespace leasehold::common
