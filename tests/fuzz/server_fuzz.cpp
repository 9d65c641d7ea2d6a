// A hostile server: the input is what it answers, in the protocol of Redis or not. The first byte
// says which call is made and how the server greets.
#include <spdlog/logger.h>

#include "leasehold/errors.hpp"
#include "redis/hiredis_link.hpp"
#include "redis/redis_lock_store.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/support/hostile_server.hpp"

namespace leasehold::fuzz {
namespace {

using redis::RedisLockStore;
using std::chrono::milliseconds;

const std::string owner(32, 'a');

AcquireRequest request_for(LockKind kind) {
  return {.name = "a",
          .owner = owner,
          .metadata = {},
          .ttl = milliseconds{1'000},
          .heartbeat_every = milliseconds{300},
          .kind = kind};
}

LockRenewal renewal_of(LockKind kind) {
  return {.name = "a",
          .owner = owner,
          .metadata = {},
          .token = {7},
          .ttl = milliseconds{1'000},
          .heartbeat_every = milliseconds{300},
          .kind = kind};
}

void acquire(RedisLockStore& store, LockKind kind, AcquireMode mode, Join join) {
  AcquireRequest request = request_for(kind);
  request.mode = mode;
  request.join = join;
  store.acquire(request);
}

void call(RedisLockStore& store, int which) {
  constexpr milliseconds timeout{1'000};
  const std::array<GrantId, 2> grants{GrantId{"a", owner}, GrantId{"b", owner}};
  switch (which) {
    case 0:
      return acquire(store, LockKind::exclusive, AcquireMode::if_free, Join::tail);
    case 1:
      return acquire(store, LockKind::shared, AcquireMode::if_free, Join::head);
    case 2:
      return acquire(store, LockKind::exclusive, AcquireMode::always, Join::no);
    case 3: {
      const std::array requests{request_for(LockKind::exclusive), request_for(LockKind::exclusive)};
      store.acquire_free(requests);
      return;
    }
    case 4: {
      std::array renewals{renewal_of(LockKind::exclusive), renewal_of(LockKind::shared)};
      return store.renew(renewals, timeout);
    }
    case 5:
      store.verify(grants, timeout);
      return;
    case 6:
      store.release("a", owner);
      return;
    case 7:
      store.release_all(grants);
      return;
    case 8:
      store.downgrade(renewal_of(LockKind::exclusive));
      return;
    case 9:
      return store.resize("a", 3);
    case 10: {
      std::array lines{LineWatch{.name = "a", .owner = owner},
                       LineWatch{.name = "b", .owner = owner}};
      return store.watch_lines(lines);
    }
    case 11:
      store.status("a");
      return;
    case 12:
      return store.visit("*", [](const LockRecord&) { return true; });
    case 13:
      store.remove_stale("*");
      return;
    default:
      store.force_release("a");
  }
}

void check(std::string_view bytes) {
  static const auto no_log = std::make_shared<spdlog::logger>("none");
  Input input{bytes};
  const int flags = input.byte();
  const bool greets_well = (flags & 0x40) == 0;
  const bool wants_password = (flags & 0x60) == 0x60;
  static testing::HostileServer server;
  server.say((greets_well ? testing::HostileServer::good_greeting : "") +
             std::string(input.rest()));

  const auto link = redis::connect(server.uri(wants_password ? "user:secret@" : ""), {}, no_log);
  RedisLockStore store{link, link,
                       RedisLockStore::Options{RunnerId::of_this_process(), milliseconds{1'000},
                                               milliseconds{1'000}, milliseconds{1'000}}};
  try {
    call(store, flags & 0x0f);
  } catch (const Error&) {
    // The only errors that callers have to expect. Any other ends the program.
  }
}

}  // namespace
}  // namespace leasehold::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  leasehold::fuzz::check(leasehold::fuzz::as_text(data, size));
  return 0;
}
