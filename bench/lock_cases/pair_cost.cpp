#include "lock_cases/pair_cost.hpp"

#include <sys/resource.h>
#include <unistd.h>

namespace leasehold::bench {

CostMeter::Used CostMeter::now() const {
  rusage own{};
  getrusage(RUSAGE_SELF, &own);
  return {CpuTime::of(getpid()), CpuTime::of(server_), static_cast<double>(own.ru_nvcsw)};
}

Work CostMeter::run(Crew& crew, std::chrono::milliseconds slice) {
  const Used before = now();
  const Work work = crew.run(slice);
  const Used after = now();
  used_.client += after.client - before.client;
  used_.server += after.server - before.server;
  used_.sleeps += after.sleeps - before.sleeps;
  operations_ += work.operations;
  return work;
}

std::vector<std::pair<std::string, double>> CostMeter::fields(const std::string& of) const {
  const double us = 1e6 / operations_;
  return {{of + "cpu_us_per_pair", this->us()},
          {of + "client_user_us_per_pair", used_.client.user * us},
          {of + "client_system_us_per_pair", used_.client.system * us},
          {of + "server_user_us_per_pair", used_.server.user * us},
          {of + "server_system_us_per_pair", used_.server.system * us},
          {of + "client_sleeps_per_pair", used_.sleeps / operations_}};
}

}  // namespace leasehold::bench
