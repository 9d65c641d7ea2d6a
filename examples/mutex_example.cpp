// Distributed locks where the standard library expects a mutex.
//
//   mutex_example redis://127.0.0.1:6379
#include <iostream>
#include <leasehold/locks.hpp>
#include <mutex>
#include <shared_mutex>

using namespace std::chrono_literals;

namespace {

int run(const char* uri) {
  leasehold::LockClient locks{uri};
  leasehold::Mutex ledger{locks, "ledger"};
  leasehold::Mutex archive{locks, "archive"};
  leasehold::SharedMutex prices{locks, "prices"};

  {
    const std::scoped_lock both{ledger, archive};
    // Unlike a std::mutex, a lock can be lost while it is held.
    std::cout << "ledger and archive are " << (ledger.valid() && archive.valid() ? "" : "not ")
              << "ours\n";
  }
  {
    const std::shared_lock first{prices};
    const std::shared_lock second{prices};
    std::unique_lock writer{prices, std::defer_lock};
    std::cout << "writing beside two readers: " << (writer.try_lock_for(20ms) ? "yes" : "no")
              << "\n";
  }
  const std::unique_lock writer{prices};
  std::cout << "writing alone: " << (writer.owns_lock() ? "yes" : "no") << "\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: mutex_example redis://host[:port]\n";
    return 2;
  }
  try {
    return run(argv[1]);
  } catch (const leasehold::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
