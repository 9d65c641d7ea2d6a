#pragma once

#include <string>
#include <string_view>

namespace leasehold::inline v0::redis {

struct RedisUri {
  std::string host;  ///< empty for a Unix socket
  int port = 6379;
  std::string socket;  ///< path of a Unix socket, or empty
  std::string user;
  std::string password;
  int database = 0;

  /// Throws InvalidArgument, which names the part that is wrong and never shows the password.
  static RedisUri parse(std::string_view uri);

  /// Without user and password.
  std::string display() const;
};

}  // namespace leasehold::inline v0::redis
