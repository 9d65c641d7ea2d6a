#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness/postgres_server.hpp"
#include "harness/redis_server.hpp"
#include "peers/driver.hpp"
#include "peers/results.hpp"

namespace leasehold::bench {

/// How much to do.
struct Amounts {
  std::vector<std::size_t> depths{50'000, 500'000};
  std::vector<std::size_t> processes{1, 2, 4};
  double seconds = 5;  ///< for each run that does not end by itself
};

/// The servers that all systems use in turn, and the data prepared in them.
class Stores {
 public:
  Stores();

  /// A place with no tasks and no locks, until the next call of any of these.
  std::string fresh(const System& system);
  /// A place with so many tasks, added by the system itself.
  std::string filled(const System& system, std::size_t depth);
  /// So many tasks of what filled() returned last are done.
  void drained(const System& system, std::size_t tasks);

  harness::PostgresServer& postgres() { return postgres_; }
  harness::RedisServer& redis() { return redis_; }

 private:
  std::string copy_of(const std::string& template_database);
  void drop_present();

  harness::PostgresServer postgres_;
  harness::RedisServer redis_;
  std::map<std::string, std::string> templates_;  // databases by system and depth
  std::string present_;                           // the database that was returned last
  std::string in_redis_;                          // whose tasks these are
  std::size_t redis_tasks_ = 0;
};

/// One thing that is compared.
struct Case {
  std::string name;
  std::vector<std::string> systems;  ///< that can do it
  std::function<std::vector<Figure>(Stores&, const System&)> run;
};

std::vector<Case> task_cases(const Amounts& amounts);
std::vector<Case> lock_cases(const Amounts& amounts);

/// The value below which the given share of all lies. Sorts them.
double quantile(std::vector<double>& values, double share);

}  // namespace leasehold::bench
