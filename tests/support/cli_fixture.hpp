#pragma once

#include <gtest/gtest.h>

#include <leasehold/locks.hpp>
#include <leasehold/tasks.hpp>
#include <map>
#include <string>
#include <vector>

#include "harness/temp_dir.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/leasehold_cli.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/shared_servers.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {

/// Where the stores of a test are.
enum class On { servers, sqlite };

inline void PrintTo(On on, std::ostream* out) {
  *out << (on == On::servers ? "servers" : "sqlite");
}
inline std::string name_of_store(const ::testing::TestParamInfo<On>& info) {
  return info.param == On::servers ? "Servers" : "Sqlite";
}

/// leasehold with stores of its own, on servers and on SQLite.
class CliTest : public ::testing::TestWithParam<On> {
 protected:
  static constexpr int failed = 1;
  static constexpr int misused = 2;
  static constexpr int not_found = 3;

  void SetUp() override {
    if (GetParam() == On::servers) {
      auto& postgres = shared_postgres();
      database = postgres.create_fresh_database();
      task_uri = postgres.uri(database);
      lock_uri = shared_redis().uri();
    } else {
      task_uri = lock_uri = "sqlite:" + (dir.path() / "store.db").string();
    }
  }

  std::map<std::string, std::string> environment() const {
    return {{"LEASEHOLD_REDIS_URL", lock_uri}, {"LEASEHOLD_DATABASE_URL", task_uri}};
  }

  CliResult cli(const std::vector<std::string>& arguments, const std::string& input = {}) const {
    return run_cli(LEASEHOLD_CLI, arguments, input, environment());
  }

  /// The same with --json; what it printed. The exit code must be this one.
  nlohmann::json json(std::vector<std::string> arguments, int code = 0) const {
    arguments.emplace_back("--json");
    const CliResult result = cli(arguments);
    EXPECT_EQ(result.code, code) << arguments[0] << "\n" << result;
    return nlohmann::json::parse(result.out, nullptr, false);
  }

  TempDir dir;
  std::string database;  // of the server
  std::string task_uri;
  std::string lock_uri;
};

}  // namespace leasehold::testing
