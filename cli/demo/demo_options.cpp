#include "demo_options.hpp"

#include <algorithm>
#include <random>

#include "flag_values.hpp"

namespace leasehold::cli {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

DemoOptions parse_demo_flags(const DemoFlags& flags) {
  DemoOptions options;
  options.on_servers = parse_word("--on", flags.on, {"sqlite", "servers"}) == 1;
  options.workers = static_cast<std::size_t>(parse_number("--workers", flags.workers, 1, 64));
  options.tasks = static_cast<std::uint64_t>(parse_number("--tasks", flags.tasks, 1, 100'000));
  options.chaos = std::chrono::seconds{parse_number("--seconds", flags.seconds, 1, 3'600)};
  options.seed =
      flags.seed.empty()
          ? std::random_device{}() % 10'000
          : static_cast<std::uint64_t>(parse_number("--seed", flags.seed, 0, 1'000'000'000));
  const auto threads = static_cast<std::int64_t>(options.workers * options.worker.concurrency * 2);
  // So many accounts that a lock is free most of the time.
  options.worker.accounts = std::max<std::int64_t>(100, 4 * threads);
  // Such long tasks that the work lasts about as long as the killing, whatever the numbers are.
  const auto work = threads * options.chaos / 1ms / 2 / static_cast<std::int64_t>(options.tasks);
  options.worker.work = milliseconds{std::clamp<std::int64_t>(work, 1, 1'000)};
  return options;
}

}  // namespace leasehold::cli
