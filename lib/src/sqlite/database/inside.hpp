#pragma once

#include <utility>

namespace leasehold::inline v0::sqlite {

class Connection;
class Database;

/// Lives as long as a thread is inside transact(). Of several, in different databases, each is
/// inside the one before.
class Inside {
 public:
  Inside(const Database& database, Connection& connection)
      : database_(database), connection_(connection), outer_(std::exchange(innermost_, this)) {}
  ~Inside() { innermost_ = outer_; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  const Database& database() const { return database_; }
  Connection& connection() const { return connection_; }

  /// The one of this thread for which `is_wanted(const Inside&)`; null if there is none.
  template <class IsWanted>
  static const Inside* find(IsWanted&& is_wanted) {
    const Inside* inside = innermost_;
    while (inside && !is_wanted(*inside)) inside = inside->outer_;
    return inside;
  }

 private:
  static inline thread_local const Inside* innermost_ = nullptr;

  const Database& database_;
  Connection& connection_;
  const Inside* const outer_;
};

}  // namespace leasehold::inline v0::sqlite
