// Uses locks and leases on a machine that fails in a way that only this process sees. Says "ok", or
// what is wrong.
//
//     machine_faults_program suspended <uri>        the machine is suspended for an hour
//     machine_faults_program silent-resolver        no name is ever resolved
//     machine_faults_program no-threads <uri>       no thread can be started
#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <iostream>
#include <string>
#include <thread>

#include "leasehold/task_queue.hpp"
#include "tests/support/lock_clients.hpp"

using namespace leasehold;
using namespace std::chrono_literals;
using leasehold::testing::as_new_runner;

namespace {

std::atomic<long> suspended_for{0};  // s
std::atomic<bool> no_threads{false};
std::atomic<bool> no_network{false};

}  // namespace

// What the program itself defines is used instead of what the system's library has.
extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const auto result = static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  if (clock == CLOCK_BOOTTIME) time->tv_sec += suspended_for;
  return result;
}

int getaddrinfo(const char* host, const char* port, const addrinfo* wanted, addrinfo** found) {
  if (host == std::string("silent.test") && (wanted->ai_flags & AI_NUMERICHOST) == 0) {
    for (;;) pause();
  }
  using Function = decltype(&getaddrinfo);
  static const auto real = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "getaddrinfo"));
  return real(host, port, wanted, found);
}

ssize_t send(int fd, const void* bytes, std::size_t size, int flags) {
  if (no_network) {
    errno = ENETUNREACH;
    return -1;
  }
  return syscall(SYS_sendto, fd, bytes, size, flags, nullptr, 0);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* argument) noexcept {
  if (no_threads) return EAGAIN;
  using Function = decltype(&pthread_create);
  static const auto real = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "pthread_create"));
  return real(thread, attributes, run, argument);
}
}

namespace {

void check(bool holds, const std::string& what) {
  if (holds) return;
  std::cout << what << std::endl;
  std::_Exit(1);
}

/// What the call throws must be this Leasehold error, and name the cause.
template <class Expected>
void check_throws(const std::function<void()>& call, const std::string& cause) {
  try {
    call();
  } catch (const Expected& error) {
    check(std::string(error.what()).find(cause) != std::string::npos, error.what());
    return;
  } catch (const std::exception& error) {
    check(false, std::string("another error: ") + error.what());
  }
  check(false, "no error because of: " + cause);
}

void be_suspended(const std::string& uri) {
  LockClient client{uri, as_new_runner()};
  const Lock lock = client.acquire("lock", {.ttl = 10min}).value();
  const Lock manual =
      client.acquire("manual", {.ttl = 10min, .heartbeat = Heartbeat::manual}).value();
  TaskQueue queue{"sqlite::memory:"};
  queue.enqueue({.type = "task"});
  auto leases = queue.lease({.types = {"task"}, .duration = 10min});
  check(leases.size() == 1 && leases.front().valid(), "no lease");
  check(lock.valid() && manual.valid(), "lost too early");
  suspended_for = 3'600;
  check(!lock.valid() && !manual.valid(), "a lock is trusted after its end");
  check(!leases.front().valid(), "a lease is trusted after its end");
  while (!lock.lost().stop_requested() || !manual.lost().stop_requested()) {
    std::this_thread::sleep_for(1ms);
  }
}

/// If a call waited for the resolver it would never return.
void ask_a_silent_resolver() {
  auto options = as_new_runner();
  options.redis.connect_timeout = 50ms;
  LockClient client{"redis://silent.test:6379", options};
  for (int i = 0; i < 3; ++i) {
    check_throws<Unavailable>([&] { client.acquire("lock", {.wait = 0ms}); }, "name");
  }
}

void run_out_of_threads(const std::string& uri) {
  const auto without_threads = [](const std::function<void()>& call) {
    no_threads = true;
    call();
    no_threads = false;
  };
  const std::string cause = "cannot start a thread";
  without_threads(
      [&] { check_throws<Unavailable>([&] { LockClient client(uri, as_new_runner()); }, cause); });
  auto options = as_new_runner();
  options.redis.command_timeout = 500ms;
  LockClient client{uri, options};
  without_threads([&] { check_throws<Unavailable>([&] { client.acquire("lock"); }, cause); });
  Lock lock = client.acquire("lock").value();
  without_threads(
      [&] { check_throws<Unavailable>([&] { client.acquire("lock", {.wait = 50ms}); }, cause); });
  // A release that fails is repeated in the background, once there is a thread for it.
  Lock left = client.acquire("left", {.ttl = 24h}).value();
  no_network = true;
  without_threads([&] { check(left.release() == Release::unknown, "released without a network"); });
  no_network = false;
  client.acquire("left", {.wait = LockOptions::forever}).value().release();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "suspended" && argc == 3) {
    be_suspended(argv[2]);
  } else if (what == "silent-resolver" && argc == 2) {
    ask_a_silent_resolver();
  } else if (what == "no-threads" && argc == 3) {
    run_out_of_threads(argv[2]);
  } else {
    return 2;
  }
  std::cout << "ok" << std::endl;
}
