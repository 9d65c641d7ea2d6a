// Waits for locks and holds them, in a process of its own that a test can stop and kill.
//
//     lock_line_program <uri>
//
// Says "ready <runner id>", then does what the lines of its input say, several at once:
//     acquire <id> <lock name> <ttl ms> <priority> hold|pass [write|read|<number of permits>]
//                  later "granted <id> <token> <runner that vanished with the lock, or ->"; with
//                  `pass` the lock is released at once
//     release <id>    "released <id>"
//     wait-lost <id>  once the lock is lost: "lost <id> <reason>"
//     evicted         "evicted <number of waiters this client found dead>"
// and ends with its input, without releasing anything.
#include <cstdlib>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <thread>

#include "support/thread_safety.hpp"
#include "tests/support/lock_clients.hpp"
#include "tests/support/signal.hpp"

using namespace leasehold;

namespace {

ThreadMutex mutex;
std::map<std::string, Lock> held LEASEHOLD_GUARDED_BY(mutex);

void say(const std::string& line) {
  const ThreadLock guard(mutex);
  std::cout << line << std::endl;
}

Acquisition acquire(LockClient& client, const std::string& name, const LockOptions& options,
                    const std::string& kind) {
  if (kind == "write") return client.acquire(name, options);
  if (kind == "read") return SharedLock{client, name}.read(options);
  return Semaphore{client, name, std::stoi(kind)}.acquire(options);
}

void acquire(LockClient& client, const std::string& id, const std::string& name,
             const LockOptions& options, bool pass, const std::string& kind) {
  Lock lock = acquire(client, name, options, kind).value();
  const std::string previous = lock.took_over_from() ? lock.took_over_from()->runner : "-";
  const std::string line =
      "granted " + id + " " + std::to_string(lock.token().value) + " " + previous;
  if (pass) {
    lock.release();
  } else {
    const ThreadLock guard(mutex);
    held.insert_or_assign(id, std::move(lock));
  }
  say(line);
}

Lock take(const std::string& id) {
  const ThreadLock guard(mutex);
  return std::move(held.extract(id).mapped());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  LockClient client{argv[1], leasehold::testing::as_new_runner()};
  client.acquire("listens:" + client.runner().str()).value().release();
  say("ready " + client.runner().str());
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words{line};
    std::string order;
    std::string id;
    words >> order >> id;
    if (order == "acquire") {
      std::string name;
      std::string then;
      std::string kind;
      int ttl = 0;
      LockOptions options;
      words >> name >> ttl >> options.priority >> then;
      if (!(words >> kind)) kind = "write";
      options.ttl = std::chrono::milliseconds{ttl};
      options.wait = LockOptions::forever;
      options.metadata = {{"id", id}};
      std::thread{[&client, id, name, options, then, kind] {
        acquire(client, id, name, options, then == "pass", kind);
      }}.detach();
    } else if (order == "release") {
      take(id).release();
      say("released " + id);
    } else if (order == "wait-lost") {
      const Lock lock = take(id);
      if (!leasehold::testing::wait_for_stop(lock.lost())) return 3;
      say("lost " + id + " " + to_string(lock.loss_reason()));
    } else if (order == "evicted") {
      say("evicted " + std::to_string(client.stats().waiters_evicted));
    }
  }
  std::_Exit(0);
}
