// Uses what it was linked with so far that everything below it is needed too.
#include <leasehold/errors.hpp>
#include <leasehold/version.hpp>

#ifdef WITH_LOCKS
#include <leasehold/locks.hpp>
#endif
#ifdef WITH_REDIS_PLUS_PLUS
#include <leasehold/redis_plus_plus.hpp>
#endif
#ifdef WITH_TASKS
#include <leasehold/tasks.hpp>
#endif

#include <iostream>

namespace {

/// No server listens on port 1, and the library says so in its own words.
template <class Call>
bool is_unavailable(Call call) {
  try {
    call();
  } catch (const leasehold::Unavailable&) {
    return true;
  }
  return false;
}

}  // namespace

int main() {
#ifdef WITH_LOCKS
  leasehold::LockClient locks{"redis://127.0.0.1:1"};
  if (!is_unavailable([&] { locks.acquire("a lock"); })) return 1;
#endif
#ifdef WITH_TASKS
  leasehold::TaskQueue tasks{"postgresql://127.0.0.1:1/none"};
  if (!is_unavailable([&] { tasks.enqueue({.type = "a task"}); })) return 1;
#endif
#ifdef WITH_REDIS_PLUS_PLUS
  try {
    leasehold::lend_redis(std::shared_ptr<sw::redis::Redis>{});
    return 1;
  } catch (const leasehold::InvalidArgument&) {
  }
#endif
  std::cout << "leasehold " << leasehold::version() << "\n";
}
