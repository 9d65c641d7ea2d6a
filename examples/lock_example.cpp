// Takes a lock, has a conflict, shows the holder, and loses a lock.
//
//   lock_example redis://127.0.0.1:6379
#include <condition_variable>
#include <iostream>
#include <leasehold/locks.hpp>
#include <mutex>
#include <stop_token>

using namespace std::chrono_literals;

namespace {

void charge(int invoice, leasehold::FencingToken token) {
  // Real code writes the token in the same transaction as the charge, and refuses smaller tokens.
  std::cout << "charging invoice " << invoice << " with fencing token " << token << "\n";
}

int run(const char* uri) {
  leasehold::LockClient locks{uri};

  if (auto lock = locks.acquire("invoice:42", {.ttl = 30s, .wait = 5s})) {
    charge(42, lock->token());
    if (lock->lost().stop_requested()) return 1;

    // A second request is told who holds the lock.
    auto second = locks.acquire("invoice:42", {.on_conflict = leasehold::OnConflict::fail_fast});
    const auto& holder = second.refusal().holder.value();
    std::cout << "invoice:42 is held by " << holder.runner << " (pid " << holder.pid << " on "
              << holder.host << ")\n";
  }  // released here

  std::cout << "after release it is " << (locks.status("invoice:42") ? "still held" : "free")
            << "\n";

  // The holder is notified of a loss: here an operator takes the lock away.
  auto lock = locks.acquire("invoice:43", {.ttl = 1s});
  std::mutex mutex;
  std::condition_variable_any woken;
  locks.force_release("invoice:43");
  std::unique_lock guard(mutex);
  woken.wait(guard, lock->lost(), [] { return false; });
  std::cout << "invoice:43 was lost: " << to_string(lock->loss_reason()) << "\n";
  return lock->release() == leasehold::Release::was_lost ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: lock_example redis://host[:port]\n";
    return 2;
  }
  try {
    return run(argv[1]);
  } catch (const leasehold::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
