// Holds one lock of the family, in a process of its own that a test can stop and kill.
//
//     lock_family_program <uri> <name> <ttl in ms> exclusive|read|write|<number of permits>
//
// Waits for it, says "held <token>", then answers each line of its input:
//     wait-lost  once the lock is lost: "lost <reason>"
//     downgrade  "held", "lost" or "unknown"
//     release    "done", "was_lost" or "unknown"
// and ends with its input.
#include <iostream>
#include <string>

#include "tests/support/lock_clients.hpp"
#include "tests/support/signal.hpp"

using namespace leasehold;

namespace {

Acquisition acquire(LockClient& client, const std::string& name, const std::string& kind,
                    const LockOptions& options) {
  if (kind == "exclusive") return client.acquire(name, options);
  if (kind == "read") return SharedLock{client, name}.read(options);
  if (kind == "write") return SharedLock{client, name}.write(options);
  return Semaphore{client, name, std::stoi(kind)}.acquire(options);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  LockClient client{argv[1], leasehold::testing::as_new_runner()};
  const std::chrono::milliseconds ttl{std::stoi(argv[3])};
  Lock lock = acquire(client, argv[2], argv[4], {.ttl = ttl, .wait = LockOptions::forever}).value();
  std::cout << "held " << lock.token() << std::endl;
  for (std::string order; std::getline(std::cin, order);) {
    if (order == "wait-lost") {
      if (!leasehold::testing::wait_for_stop(lock.lost())) return 3;
      std::cout << "lost " << to_string(lock.loss_reason()) << std::endl;
    } else if (order == "downgrade") {
      std::cout << to_string(lock.downgrade()) << std::endl;
    } else if (order == "release") {
      std::cout << to_string(lock.release()) << std::endl;
    }
  }
}
