#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "support/internal_api.hpp"

namespace leasehold::inline v0::sqlite {

/// Where an embedded store lives.
struct LEASEHOLD_INTERNAL_API SqliteUri {
  enum class Kind {
    private_memory,  ///< sqlite::memory: belongs to whoever opens it
    shared_memory,   ///< sqlite::memory:NAME is shared by all of this process who name it
    file,            ///< sqlite:PATH
  };
  Kind kind = Kind::private_memory;
  std::string name;  ///< of shared memory, or the path as it was written
  /// Of a file. Absolute: a program may change its directory while it has the file open.
  std::string path;

  /// For messages.
  std::string display() const;
};

inline constexpr std::string_view sqlite_uri_forms =
    "sqlite:path, sqlite::memory: or sqlite::memory:name";

/// Nothing if the scheme is another one. Throws InvalidArgument for what stands behind it.
LEASEHOLD_INTERNAL_API std::optional<SqliteUri> parse_sqlite_uri(std::string_view uri);

}  // namespace leasehold::inline v0::sqlite
