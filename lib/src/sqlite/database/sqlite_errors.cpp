#include "sqlite/database/sqlite_errors.hpp"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <filesystem>

#include "leasehold/errors.hpp"

namespace leasehold::inline v0::sqlite {
namespace {

using Reason = ServerRefused::Reason;

/// SQLite's own words and number. They never contain a value that was bound.
std::string words(int code, sqlite3* connection) {
  const char* text = connection ? sqlite3_errmsg(connection) : sqlite3_errstr(code);
  return std::string(" (") + text + ", SQLite " + std::to_string(code) + ")";
}

bool may(const std::filesystem::path& path, int mode) {
  return faccessat(AT_FDCWD, path.c_str(), mode, AT_EACCESS) == 0;
}

}  // namespace

void raise(int code, sqlite3* connection, const std::string& where) {
  const auto refused = [&](Reason reason, const char* advice) {
    return ServerRefused(reason, where + ": " + advice + words(code, connection));
  };
  // The file was replaced since we looked: the next attempt opens the new one.
  if (code == SQLITE_READONLY_DBMOVED) throw Busy{};
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:  // others came and went too fast for it
      throw Busy{};
    case SQLITE_READONLY:
      throw refused(Reason::permission, "the file or its folder is read-only");
    case SQLITE_PERM:
    case SQLITE_AUTH:
      throw refused(Reason::permission, "this user may not use the file");
    case SQLITE_FULL:
      throw refused(Reason::cannot_save, "the disk is full");
    case SQLITE_NOMEM:
      throw refused(Reason::out_of_memory, "out of memory");
    case SQLITE_NOTADB:
      throw refused(Reason::wrong_type, "the file is not a SQLite database");
    case SQLITE_CORRUPT:
      throw refused(Reason::other, "the file is damaged: restore or delete it");
    case SQLITE_CANTOPEN:
      throw refused(Reason::other, "the file, or one beside it, cannot be opened");
    case SQLITE_IOERR:
      throw Unavailable(where + ": the disk cannot be read or written" + words(code, connection));
    default:
      throw refused(Reason::other, "SQLite refused");
  }
}

void raise_open_failure(int code, sqlite3* connection, const std::string& path,
                        const std::string& where) {
  namespace fs = std::filesystem;
  if ((code & 0xff) == SQLITE_CANTOPEN) {
    std::error_code ignored;
    const fs::path file(path);
    const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
    const auto refused = [&](Reason reason, const std::string& advice) {
      return ServerRefused(reason, where + ": " + advice + words(code, connection));
    };
    if (fs::is_directory(file, ignored)) throw refused(Reason::wrong_type, "this is a folder");
    if (!fs::exists(folder, ignored)) throw refused(Reason::other, "its folder does not exist");
    if (!may(folder, W_OK | X_OK)) {
      throw refused(Reason::permission, "this user may not write into its folder");
    }
    if (fs::exists(file, ignored) && !may(file, R_OK | W_OK)) {
      throw refused(Reason::permission, "this user may not read and write the file");
    }
  }
  raise(code, connection, where);
}

void raise_commit_failure(int code, sqlite3* connection, const std::string& where) {
  if ((code & 0xff) == SQLITE_IOERR) {
    // All pages may have been written before the call that failed: then a crash right now would
    // bring the transaction back.
    throw OutcomeUnknown(where + ": the disk failed while a transaction was committed" +
                         words(code, connection));
  }
  raise(code, connection, where);
}

}  // namespace leasehold::inline v0::sqlite
