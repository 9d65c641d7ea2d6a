// Locks on the redis-plus-plus client that the application uses for its own commands, too.
//
//   redis_plus_plus_example tcp://127.0.0.1:6379
#include <sw/redis++/redis++.h>

#include <iostream>
#include <leasehold/locks.hpp>
#include <leasehold/redis_plus_plus.hpp>
#include <memory>

using namespace std::chrono_literals;

namespace {

int run(const char* uri) {
  const sw::redis::Uri parsed{uri};
  auto options = parsed.connection_options();
  options.connect_timeout = 2s;  // without these lend_redis() refuses it
  options.socket_timeout = 1s;
  auto pool = parsed.connection_pool_options();
  pool.wait_timeout = 1s;  // otherwise a call waits without end for a free connection
  auto redis = std::make_shared<sw::redis::Redis>(options, pool);

  leasehold::LockClient locks{leasehold::lend_redis(redis)};
  if (auto lock = locks.acquire("report", {.ttl = 30s, .wait = 5s})) {
    redis->set("report:state", "running");
    std::cout << "report is ours with fencing token " << lock->token() << "\n";
    redis->del("report:state");
  }  // released here
  std::cout << "after release it is " << (locks.status("report") ? "still held" : "free") << "\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: redis_plus_plus_example tcp://host[:port]\n";
    return 2;
  }
  try {
    return run(argv[1]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
