#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>

// The same tests on every store: TEST_P of a fixture that derives from OnEveryLockStore
// (lock_store.hpp) or OnEveryTaskStore (task_store.hpp), and ON_EVERY_STORE(Fixture).

namespace leasehold::testing {

enum class StoreKind { redis, postgres, sqlite_memory, sqlite_file };

inline std::string to_name(StoreKind kind) {
  switch (kind) {
    case StoreKind::redis:
      return "Redis";
    case StoreKind::postgres:
      return "Postgres";
    case StoreKind::sqlite_memory:
      return "SqliteMemory";
    case StoreKind::sqlite_file:
      break;
  }
  return "SqliteFile";
}

inline void PrintTo(StoreKind kind, std::ostream* out) { *out << to_name(kind); }

inline std::string name_of_store(const ::testing::TestParamInfo<StoreKind>& info) {
  return to_name(info.param);
}

/// Runs the tests of a fixture on the stores that follow.
#define ON_STORES(Fixture, ...)                                       \
  INSTANTIATE_TEST_SUITE_P(, Fixture, ::testing::Values(__VA_ARGS__), \
                           ::leasehold::testing::name_of_store)

/// Fixture::server_kind is the one that needs a server.
#define ON_EVERY_STORE(Fixture) \
  ON_STORES(Fixture, Fixture::server_kind, StoreKind::sqlite_memory, StoreKind::sqlite_file)

/// For tests with several processes, which share no memory.
#define ON_STORES_BETWEEN_PROCESSES(Fixture) \
  ON_STORES(Fixture, Fixture::server_kind, StoreKind::sqlite_file)

}  // namespace leasehold::testing
