// Uses a lock in a process of its own, which a test runs with a wrong clock.
//
//     lock_clock_program <uri> try <name>
//         says "granted <token>" and releases, or "busy"
//     lock_clock_program <uri> now
//         says the time of day in s
#include <chrono>
#include <iostream>
#include <string>

#include "tests/support/lock_clients.hpp"

using namespace leasehold;

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  if (argv[2] == std::string("now")) {
    std::cout << std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())
              << std::endl;
    return 0;
  }
  if (argc < 4) return 2;
  LockClient client{argv[1], leasehold::testing::as_new_runner()};
  if (auto lock = client.acquire(argv[3], {.on_conflict = OnConflict::fail_fast})) {
    std::cout << "granted " << lock->token() << std::endl;
  } else {
    std::cout << "busy" << std::endl;
  }
}
