#include <algorithm>

#include "peers/cases.hpp"
#include "postgres_tools.hpp"

namespace leasehold::bench {

Stores::Stores() : postgres_(server_options()) {}

void Stores::drop_present() {
  if (!present_.empty()) postgres_.drop_database(present_);
  present_.clear();
}

std::string Stores::fresh(const System& system) {
  drop_present();
  if (system.store == Store::redis) {
    redis_.command({"FLUSHALL"});
    in_redis_.clear();
    redis_tasks_ = 0;
    return redis_.uri();
  }
  present_ = postgres_.create_fresh_database();
  return postgres_.uri(present_);
}

// A template is filled and vacuumed once; every run gets a copy of it that nobody has touched.
std::string Stores::filled(const System& system, std::size_t depth) {
  if (system.store == Store::redis) {
    // Tasks that are done leave nothing behind in Redis, so that those that are missing will do.
    if (in_redis_ != system.name || redis_tasks_ > depth) fresh(system);
    in_redis_ = system.name;
    if (redis_tasks_ < depth) {
      Driver(system, "fill", {{"uri", redis_.uri()}, {"count", depth - redis_tasks_}})
          .read(std::chrono::minutes{5});
    }
    redis_tasks_ = depth;
    return redis_.uri();
  }
  auto& filled = templates_[system.name + std::to_string(depth)];
  if (filled.empty()) {
    const std::string name = postgres_.create_fresh_database();
    Driver(system, "fill", {{"uri", postgres_.uri(name)}, {"count", depth}})
        .read(std::chrono::minutes{5});
    postgres_.run_sql("VACUUM ANALYZE", name);
    filled = name;
  }
  return copy_of(filled);
}

void Stores::drained(const System& system, std::size_t tasks) {
  if (system.store == Store::redis) redis_tasks_ -= std::min(redis_tasks_, tasks);
}

std::string Stores::copy_of(const std::string& template_database) {
  drop_present();
  const std::string name = template_database + "_copy";
  postgres_.run_sql("CREATE DATABASE " + name + " TEMPLATE " + template_database +
                    " STRATEGY FILE_COPY");
  present_ = name;
  return postgres_.uri(name);
}

}  // namespace leasehold::bench
