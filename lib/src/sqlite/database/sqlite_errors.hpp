#pragma once

#include <string>

#include "support/internal_api.hpp"

struct sqlite3;

namespace leasehold::inline v0::sqlite {

/// Another connection is in the way. Caught by Database, which tries again.
struct Busy {};

/// Throws what the result code of a call that did nothing means: Busy, ServerRefused or
/// Unavailable. `where` names the database.
[[noreturn]] LEASEHOLD_INTERNAL_API void raise(int code, sqlite3* connection,
                                               const std::string& where);

/// The same for opening the file at `path`: looks why.
[[noreturn]] void raise_open_failure(int code, sqlite3* connection, const std::string& path,
                                     const std::string& where);

/// The same for COMMIT.
[[noreturn]] void raise_commit_failure(int code, sqlite3* connection, const std::string& where);

}  // namespace leasehold::inline v0::sqlite
