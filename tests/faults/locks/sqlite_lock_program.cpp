// Uses locks in a SQLite file, in a process of its own that a test can kill.
//
//     sqlite_lock_program <uri> busy <threads> <rounds>
//         each thread, with a client of its own, takes and releases a lock of its own; says
//         "<errors> <busy retries>"
//     sqlite_lock_program <uri> grants <name>
//         takes and releases the lock for ever; says "granted <token>" and "released <token>"
#include <atomic>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/lock_clients.hpp"

using namespace leasehold;
using namespace std::chrono_literals;

namespace {

void be_busy(const std::string& uri, int threads, int rounds) {
  std::atomic<int> errors = 0;
  std::atomic<std::uint64_t> retries = 0;
  {
    std::vector<std::jthread> running;
    for (int i = 0; i < threads; ++i) {
      running.emplace_back([&, i] {
        try {
          auto options = leasehold::testing::as_new_runner();
          options.sqlite.timeout = 60s;
          LockClient client{uri, options};
          const std::string name = client.runner().str() + ":" + std::to_string(i);
          for (int round = 0; round < rounds; ++round) {
            if (client.acquire(name, {.wait = 0ms})->release() != Release::done) ++errors;
          }
          retries += client.stats().busy_retries;
        } catch (const Error& error) {
          std::cerr << error.what() << std::endl;
          ++errors;
        }
      });
    }
  }
  std::cout << errors << " " << retries << std::endl;
}

void take_and_release(LockClient& client, const std::string& name) {
  for (;;) {
    Lock lock = client.acquire(name, {.ttl = 60s}).value();
    std::cout << "granted " << lock.token() << std::endl;
    if (lock.release() == Release::done) std::cout << "released " << lock.token() << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string uri = argv[1];
  const std::string what = argv[2];
  if (what == "busy") be_busy(uri, std::stoi(argv[3]), std::stoi(argv[4]));
  if (what != "grants") return 0;
  LockClient client{uri, leasehold::testing::as_new_runner()};
  take_and_release(client, argv[3]);
}
