// Many threads that take locks of the family and watch, through counters in Redis that no lock
// knows of, whether anybody is inside who must not be.
//
//     lock_storm_program <uri> <redis uri> <name> <threads> <rounds> semaphore <permits>
//     lock_storm_program <uri> <redis uri> <name> <threads> <rounds> sets <names> <seed>
//     lock_storm_program <uri> <redis uri> <name> <threads> <rounds> shared <writes in 100> <seed>
//
// The locks are at the first address, the counters at the second.
//
// Says "<rounds done> <violations> <most inside at once> <longest wait in ms>".
#include <algorithm>
#include <atomic>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/lock_clients.hpp"

using namespace leasehold;
using namespace std::chrono_literals;

namespace {

void raise_to(std::atomic<long long>& value, long long at_least) {
  long long known = value.load();
  while (known < at_least && !value.compare_exchange_weak(known, at_least)) {
  }
}

class Storm {
  template <typename Acquire>
  auto timed(Acquire&& acquire) {
    const auto began = std::chrono::steady_clock::now();
    auto held = acquire();
    const auto took = std::chrono::steady_clock::now() - began;
    raise_to(longest_wait_, std::chrono::duration_cast<std::chrono::milliseconds>(took).count());
    return held;
  }

 public:
  Storm(const std::string& uri, const std::string& counters, std::string name)
      : client_(uri, leasehold::testing::as_new_runner()),
        link_(connect_redis(counters, {.command_timeout = 30s})),
        name_(std::move(name)) {}

  void semaphore_round(int permits) {
    Semaphore semaphore{client_, name_, permits};
    const Lock permit = timed([&] { return semaphore.acquire(patient_).value(); });
    enter(name_, permits);
    leave(name_);
    if (!permit.valid()) ++violations_;
  }

  void set_round(int names, std::mt19937& random) {
    std::vector<std::string> all;
    for (int i = 0; i < names; ++i) all.push_back(name_ + ":" + std::to_string(i));
    std::shuffle(all.begin(), all.end(), random);
    all.resize(2 + random() % 3);
    const LockSet set = timed([&] { return client_.acquire_all(all, patient_).value(); });
    for (const std::string& name : all) enter(name, 1);
    for (const std::string& name : all) leave(name);
    if (!set.valid()) ++violations_;
  }

  void shared_round(unsigned writes_in_100, std::mt19937& random) {
    SharedLock lock{client_, name_};
    if (random() % 100 < writes_in_100) {
      const Lock held = timed([&] { return lock.write(patient_).value(); });
      enter(name_ + ":writers", 1);
      if (count(name_ + ":readers", 0) != 0) ++violations_;
      leave(name_ + ":writers");
    } else {
      const Lock held = timed([&] { return lock.read(patient_).value(); });
      enter(name_ + ":readers", 1'000);
      if (count(name_ + ":writers", 0) != 0) ++violations_;
      leave(name_ + ":readers");
    }
  }

  void round_done() { ++rounds_; }

  void print() const {
    std::cout << rounds_ << " " << violations_ << " " << most_ << " " << longest_wait_ << std::endl;
  }

 private:
  void enter(const std::string& name, long long most) {
    const long long inside = count(name, +1);
    raise_to(most_, inside);
    if (inside > most) ++violations_;
  }
  void leave(const std::string& name) { count(name, -1); }

  long long count(const std::string& name, int change) {
    const std::string key = "inside:" + name;
    const std::string by = std::to_string(change);
    const std::array<std::string_view, 3> words{"INCRBY", key, by};
    const RedisCommand command{words};
    return link_->pipeline({&command, 1}).at(0).integer;
  }

  LockClient client_;
  const std::shared_ptr<RedisLink> link_;
  const std::string name_;
  const LockOptions patient_{.ttl = 60s, .wait = 120s};
  std::atomic<long long> rounds_{0};
  std::atomic<long long> violations_{0};
  std::atomic<long long> most_{0};
  std::atomic<long long> longest_wait_{0};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 8) return 2;
  const std::string kind = argv[6];
  const int number = std::stoi(argv[7]);
  const unsigned seed = argc > 8 ? static_cast<unsigned>(std::stoul(argv[8])) : 0;
  const int rounds = std::stoi(argv[5]);
  Storm storm{argv[1], argv[2], argv[3]};
  std::vector<std::jthread> threads;
  for (int i = 0; i < std::stoi(argv[4]); ++i) {
    threads.emplace_back([&, i] {
      std::mt19937 random{seed + static_cast<unsigned>(i)};
      for (int round = 0; round < rounds; ++round) {
        if (kind == "semaphore") storm.semaphore_round(number);
        if (kind == "sets") storm.set_round(number, random);
        if (kind == "shared") storm.shared_round(static_cast<unsigned>(number), random);
        storm.round_done();
      }
    });
  }
  threads.clear();
  storm.print();
}
