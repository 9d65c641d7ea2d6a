#pragma once

#include <map>
#include <string>

#include "harness/redis_server.hpp"

namespace leasehold::bench {

/// Redis measures the time that passes while it runs a command. Lets it go before other load on the
/// machine, so that this does not count; does nothing if we are not allowed to.
void give_priority(const harness::RedisServer& redis);

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
  /// Of a script: with the commands inside.
  double us(const std::string& command) const;

 private:
  struct Cost {
    double calls = 0;
    double us = 0;
  };
  std::map<std::string, Cost> read() const;

  const harness::RedisServer& redis_;
  std::map<std::string, Cost> costs_;
};

}  // namespace leasehold::bench
