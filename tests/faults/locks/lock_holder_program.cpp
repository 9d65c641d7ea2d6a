// Holds a lock, in a process of its own that a test can stop and kill.
//
//     lock_holder_program <uri> <lock name> <ttl in ms> [<runner id file>]
//
// Says "held <token> <runner id>", then answers each line of its input:
//     valid      "valid" or "invalid"
//     wait-lost  once the lock is lost: "lost <reason>"
//     release    "done", "was_lost" or "unknown"
// and ends with its input.
#include <iostream>
#include <string>

#include "tests/support/lock_clients.hpp"
#include "tests/support/signal.hpp"

using namespace leasehold;

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  auto options = leasehold::testing::as_new_runner();
  if (argc > 4) options.runner = RunnerId::from_file(argv[4]);
  LockClient client{argv[1], options};
  Lock lock = client
                  .acquire(argv[2], {.ttl = std::chrono::milliseconds{std::stoi(argv[3])},
                                     .metadata = {{"program", "holder"}}})
                  .value();
  std::cout << "held " << lock.token() << " " << client.runner().str() << std::endl;
  for (std::string order; std::getline(std::cin, order);) {
    if (order == "valid") {
      std::cout << (lock.valid() ? "valid" : "invalid") << std::endl;
    } else if (order == "wait-lost") {
      if (!leasehold::testing::wait_for_stop(lock.lost())) return 3;
      std::cout << "lost " << to_string(lock.loss_reason()) << std::endl;
    } else if (order == "release") {
      std::cout << to_string(lock.release()) << std::endl;
    }
  }
}
