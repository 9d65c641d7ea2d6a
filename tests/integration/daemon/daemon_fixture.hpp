#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "harness/process.hpp"
#include "harness/temp_dir.hpp"
#include "sqlite/database/machine_clock.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/leaseholdd.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/signal.hpp"
#include "tests/support/task_store.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {

/// leaseholdd with tasks to look after: the real program on real stores.
class DaemonFixture : public OnEveryTaskStore {
 protected:
  static Leaseholdd start(std::vector<std::string> arguments = {},
                          std::map<std::string, std::string> env = {}) {
    if (!env.contains("LEASEHOLD_DATABASE")) env["LEASEHOLD_DATABASE"] = uri();
    if (!env.contains("LEASEHOLD_ROUND_INTERVAL")) env["LEASEHOLD_ROUND_INTERVAL"] = "200ms";
    return Leaseholdd(LEASEHOLDD, std::move(arguments), std::move(env));
  }
  static Finished once(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--once", "--database", uri()});
    return run_leaseholdd(LEASEHOLDD, std::move(arguments));
  }

  /// Makes tasks whose worker was killed, and whose lease ends after this time.
  static void insert_leased(int number, std::chrono::milliseconds ends_after) {
    if (in_postgres()) {
      sql(up_to(number) +
          "INSERT INTO leasehold.tasks (type, payload, state, version, attempts, started, "
          "                             leased_by, leased_at, lease_expiry) "
          "SELECT 't', '{}', 'leased', 1, 1, true, 'crashed', now(), now() + interval '" +
          std::to_string(ends_after.count()) + " ms' FROM numbers");
      return;
    }
    const std::string now = seconds_ago(0);
    sql(up_to(number) +
        "INSERT INTO leasehold.tasks (type, payload, state, version, attempts, started, "
        "                             leased_by, lease_deadline, run_at, created_at, updated_at) "
        "SELECT 't', '{}', 'leased', 1, 1, 1, 'crashed', " +
        std::to_string((sqlite::since_boot() + ends_after).count()) + ", " + now + ", " + now +
        ", " + now + " FROM numbers");
  }
  static void insert_expired(int number) { insert_leased(number, -1s); }

  static void insert_finished(int number, const std::string& state, std::chrono::hours age) {
    const std::string then = seconds_ago(std::chrono::seconds{age}.count());
    if (in_postgres()) {
      sql(up_to(number) +
          "INSERT INTO leasehold.finished_tasks (id, version, lease_id, priority, attempts, "
          "  max_attempts, crash_count, type, payload, state, finished_at, run_at, created_at, "
          "  updated_at) "
          "SELECT nextval('leasehold.tasks_id_seq'), 2, 1, 0, 1, 10, 0, 't', '{}', '" +
          state + "', " + then + ", " + then + ", " + then + ", " + then + " FROM numbers");
      return;
    }
    sql(up_to(number) +
        "INSERT INTO leasehold.tasks (type, payload, state, finished_at, run_at, created_at, "
        "                             updated_at) "
        "SELECT 't', '{}', '" +
        state + "', " + then + ", " + then + ", " + then + ", " + then + " FROM numbers");
  }

  static bool count_is(const std::string& state, int number) {
    return count("state = '" + state + "'") == number;
  }

  /// Makes another queue; returns the setting that says where it is.
  std::string also(const std::string& name) const {
    if (in_postgres()) {
      sql("SET client_min_messages = warning; DROP SCHEMA IF EXISTS " + name + " CASCADE");
      migrate(uri(), {.schema = name});
      return "schema=" + name;
    }
    migrate(file_uri(name));
    return "database=" + file_uri(name);
  }
  TaskQueue open(const std::string& name) const {
    return in_postgres() ? TaskQueue{uri(), {.postgres = {.schema = name}}}
                         : TaskQueue{file_uri(name)};
  }

  /// The setting of a queue that does not work until mend().
  std::string broken() const {
    if (in_postgres()) {
      sql("SET client_min_messages = warning; DROP SCHEMA IF EXISTS missing CASCADE");
      return "schema=missing";
    }
    return "database=" + file_uri("later/tasks");
  }
  void mend() const {
    if (in_postgres()) {
      migrate(uri(), {.schema = "missing"});
    } else {
      std::filesystem::create_directory(dir.path() / "later");
    }
  }
  static std::string what_is_broken() { return in_postgres() ? "recovery: " : "opening: "; }

  /// Waits for a whole round that began after now.
  static void wait_for_round(const Leaseholdd& daemon, const std::string& queue = "leasehold") {
    const std::string sample =
        "leasehold_rounds_total{queue=\"" + queue + "\",outcome=\"completed\"}";
    const double now = daemon.metric(sample);
    EXPECT_TRUE(eventually([&] { return daemon.metric(sample) >= now + 2; }, patience))
        << daemon.log();
  }

  static std::string read_source(const std::string& path) {
    std::ifstream file(std::string(LEASEHOLD_SOURCE_DIR) + "/" + path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  /// The names of metrics in a text.
  static std::set<std::string> names_in(const std::string& text) {
    std::set<std::string> names;
    for (auto at = text.find("leasehold_"); at != text.npos; at = text.find("leasehold_", at + 1)) {
      const auto end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", at);
      names.insert(text.substr(at, end - at));
    }
    return names;
  }
  static std::set<std::string> metric_names(const std::string& text) {
    std::set<std::string> names;
    std::istringstream lines(text);
    for (std::string hash, type, name; lines >> hash;) {
      if (hash == "#" && lines >> type >> name && type == "TYPE") names.insert(name);
      std::getline(lines, hash);
    }
    return names;
  }

  static void stop(Leaseholdd& daemon) {
    daemon.process().kill(SIGTERM);
    const auto end = daemon.process().wait(patience);
    ASSERT_TRUE(end) << "it does not leave:\n" << daemon.log();
    EXPECT_TRUE(end->success()) << "code " << end->code << " signal " << end->signal << "\n"
                                << daemon.log();
  }

  const TempDir dir;

 private:
  static std::string up_to(int number) {
    return "WITH RECURSIVE numbers(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < " +
           std::to_string(number) + ") ";
  }
  std::string file_uri(const std::string& name) const {
    return "sqlite:" + (dir.path() / (name + ".db")).string();
  }
};

}  // namespace leasehold::testing
