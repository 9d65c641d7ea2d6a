// A whole client over a link whose replies are trees made from the input: everything that can be
// done with locks meets replies of every shape, in the background threads too.
#include <spdlog/logger.h>

#include <list>

#include "leasehold/errors.hpp"
#include "leasehold/locks.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/input_link.hpp"

namespace leasehold::fuzz {
namespace {

using std::chrono::milliseconds;

struct Session {
  Input& input;
  InputLink& link;
  LockClient& client;
  std::list<Lock> held;

  void keep(Acquisition acquisition) {
    if (acquisition) held.push_back(std::move(*acquisition));
  }

  LockOptions options() {
    LockOptions options;
    const unsigned kind = input.byte();
    options.on_conflict = static_cast<OnConflict>(kind % 5);
    options.wait = milliseconds{kind / 5 % 4};
    options.ttl = milliseconds{kind % 2 == 0 ? 20 : 60'000};
    options.retry = {.retries = 1, .first = milliseconds{1}};
    if (kind > 128) options.reentry = Reentry::allowed;
    return options;
  }

  void step() {
    switch (input.byte() % 16) {
      case 0:
      case 1:
        return keep(client.acquire("a", options()));
      case 2:
        return keep(SharedLock{client, "a"}.read(options()));
      case 3:
        return keep(SharedLock{client, "a"}.write(options()));
      case 4: {
        Semaphore semaphore{client, "a", 3};
        keep(semaphore.acquire(options()));
        return semaphore.resize(2);
      }
      case 5:
        client.acquire_all({"a", "b"}, {.wait = milliseconds{1}});
        return;
      case 6:
        client.status("a");
        return;
      case 7:
        client.list();
        return;
      case 8:
        client.cleanup_stale();
        return;
      case 9:
        client.force_release("a");
        return;
      case 10:
        client.stats(StatsScope::store);
        return;
      case 11:
        if (!held.empty()) held.back().extend();
        return;
      case 12:
        if (!held.empty()) held.back().downgrade();
        return;
      case 13:
        if (!held.empty()) held.pop_front();
        return;
      case 14:
        return link.publish(input.text(input.byte()));
      default:
        for (const Lock& lock : held) link.publish("taken " + lock.owner() + " a");
    }
  }
};

void check(std::string_view bytes) {
  static const auto no_log = std::make_shared<spdlog::logger>("none");
  Input input{bytes};
  const auto link = std::make_shared<InputLink>(input);
  LockClient client{link, {.logger = no_log}};
  Session session{input, *link, client, {}};
  while (!input.empty()) {
    try {
      session.step();
    } catch (const Error&) {
      // The only errors that callers have to expect. Any other ends the program.
    }
  }
}

}  // namespace
}  // namespace leasehold::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  leasehold::fuzz::check(leasehold::fuzz::as_text(data, size));
  return 0;
}
