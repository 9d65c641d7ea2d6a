// Limits how many run at a time, in all processes together, and changes the limit.
//
//   semaphore_example redis://127.0.0.1:6379
#include <future>
#include <iostream>
#include <leasehold/locks.hpp>
#include <thread>

using namespace std::chrono_literals;

namespace {

int run(const char* uri) {
  leasehold::LockClient locks{uri};
  leasehold::Semaphore exports{locks, "exports", 2};

  auto first = exports.acquire({.ttl = 30s, .wait = 5s});
  auto second = exports.acquire({.ttl = 30s, .wait = 5s});
  if (!first || !second) return 1;
  auto third = exports.acquire({.on_conflict = leasehold::OnConflict::fail_fast});
  std::cout << "a third export: " << (third ? "runs" : "has to wait") << "\n";

  // One more permit: the first waiter in line gets it at once.
  auto waiting = std::async(std::launch::async, [&] { return exports.acquire({.wait = 60s}); });
  while (locks.status("exports")->waiter_count == 0) std::this_thread::yield();
  exports.resize(3);
  if (!waiting.get()) return 1;
  std::cout << "with " << exports.permits() << " permits it runs\n";

  // Each permit is a lock of its own, with its own ttl and its own stop token.
  first->release();
  std::cout << "the others still run: " << (second->valid() ? "yes" : "no") << "\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: semaphore_example redis://host[:port]\n";
    return 2;
  }
  try {
    return run(argv[1]);
  } catch (const leasehold::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
