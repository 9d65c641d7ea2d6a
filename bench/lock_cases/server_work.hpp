#pragma once

#include <map>
#include <string>

#include "harness/redis_server.hpp"

namespace leasehold::bench {

/// What Redis did between two moments, by the name of the command.
class ServerWork {
 public:
  /// Starts counting.
  explicit ServerWork(const harness::RedisServer& redis);

  /// Stops counting.
  void stop();

  /// All commands, those inside of scripts counted too.
  double commands() const;
  double calls(const std::string& command) const;
  /// The time that passed while Redis ran a command, a script with the commands inside. Other load
  /// on the machine makes it longer.
  double us(const std::string& command) const;
  /// The processor time of Redis for all that it did, in µs.
  double cpu_us() const { return cpu_seconds_ * 1e6; }

 private:
  struct Cost {
    double calls = 0;
    double us = 0;
  };
  std::map<std::string, Cost> read() const;

  const harness::RedisServer& redis_;
  double cpu_seconds_;  // so far, until stop()
  std::map<std::string, Cost> costs_;
};

}  // namespace leasehold::bench
