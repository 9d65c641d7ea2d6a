#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "harness/process.hpp"
#include "leasehold/lock_client.hpp"
#include "lock_cases/cases.hpp"
#include "raw_redis.hpp"
#include "support/random.hpp"

namespace leasehold::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

constexpr int processes = 4;
constexpr int threads_each = 4;
constexpr milliseconds hot_ttl{10'000};
const std::string lock_name = "bench:hot";
/// What the lock protects: each holder reads the number and writes the next one.
const std::string counter = "bench:hot:counter";

/// One turn of one contender; all processes share the steady clock.
struct Turn {
  nanoseconds asked{0};
  nanoseconds in_line{0};  // since when it was in line for certain; 0 if it did not have to wait
  nanoseconds granted{0};
  int contender = 0;
};

nanoseconds now() { return steady_clock::now().time_since_epoch(); }

/// When the acquire request of the calling thread was in the line.
thread_local nanoseconds queued_at{0};

class QueuedAt final : public LockObserver {
 public:
  void on_lock_event(const LockEvent& event) noexcept override {
    if (event.type == LockEventType::queued) queued_at = now();
  }
};

Turn take_turn(LockClient& client, RawRedisLock& raw) {
  Turn turn{.asked = now()};
  queued_at = nanoseconds{0};
  auto lock = client.acquire(lock_name, {.ttl = hot_ttl, .wait = LockOptions::forever});
  turn.granted = now();
  turn.in_line = queued_at;
  raw.read_and_write_next(counter);
  lock->release();
  return turn;
}

/// The alternative to a line: ask every 10 ms, with jitter.
Turn take_turn(RawRedisLock& raw, const std::string& owner) {
  Turn turn{.asked = now()};
  while (!raw.try_acquire(lock_name, owner, hot_ttl)) {
    std::this_thread::sleep_for(
        std::chrono::microseconds{static_cast<long>(5'000 + random_share() * 10'000)});
  }
  turn.granted = now();
  raw.read_and_write_next(counter);
  raw.release(lock_name, owner);
  return turn;
}

std::vector<Turn> read_turns(const std::string& text) {
  std::vector<Turn> turns;
  std::istringstream in(text);
  long long asked = 0;
  long long in_line = 0;
  long long granted = 0;
  int contender = 0;
  while (in >> asked >> in_line >> granted >> contender) {
    turns.push_back({nanoseconds{asked}, nanoseconds{in_line}, nanoseconds{granted}, contender});
  }
  return turns;
}

/// Runs all contenders for a while.
std::vector<Turn> contend(LockBench& bench, const char* how, milliseconds time) {
  RawRedisLock raw(bench.redis.address().host, bench.redis.port());
  const auto before = raw.read_and_write_next(counter);
  // The resolved path: /proc/self/exe would be the spawn guard, which starts the children.
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  std::vector<std::unique_ptr<harness::Process>> children;
  for (int i = 0; i < processes; ++i) {
    children.push_back(std::make_unique<harness::Process>(std::vector<std::string>{
        self, "--contenders", how, bench.redis.address().host, std::to_string(bench.redis.port()),
        std::to_string(time.count()), std::to_string(i * threads_each)}));
  }
  std::vector<Turn> turns;
  for (auto& child : children) {
    const auto some = read_turns(child->read_rest(time + std::chrono::seconds{30}));
    turns.insert(turns.end(), some.begin(), some.end());
  }
  if (turns.size() < 2) throw std::runtime_error("nobody got the hot lock");
  const auto written = static_cast<std::size_t>(raw.read_and_write_next(counter) - before);
  if (written != turns.size() + 1) throw std::runtime_error("two had the hot lock at once");
  std::sort(turns.begin(), turns.end(),
            [](const Turn& a, const Turn& b) { return a.granted < b.granted; });
  return turns;
}

struct Found {
  double handovers_per_second = 0;  // between different holders
  double p50_ms = 0;                // waits of those who got it from another holder
  double p99_ms = 0;
  double p99_all_ms = 0;    // including those who released it and took it again at once
  double out_of_order = 0;  // share of turns that were granted before somebody who stood in line
                            // before they were even asked for
};

Found evaluate(const std::vector<Turn>& turns) {
  Found found;
  std::vector<double> waits;
  std::vector<double> all_waits;
  for (std::size_t i = 1; i < turns.size(); ++i) {
    all_waits.push_back(
        std::chrono::duration<double, std::milli>(turns[i].granted - turns[i].asked).count());
    if (turns[i].contender != turns[i - 1].contender) waits.push_back(all_waits.back());
  }
  if (waits.empty()) throw std::runtime_error("the hot lock never changed hands");
  std::size_t overtakers = 0;
  // From the last to the first: which of the later grants was in line the earliest?
  nanoseconds earliest_in_line = nanoseconds::max();
  for (auto turn = turns.rbegin(); turn != turns.rend(); ++turn) {
    if (earliest_in_line < turn->asked) ++overtakers;
    if (turn->in_line > nanoseconds{0})
      earliest_in_line = std::min(earliest_in_line, turn->in_line);
  }
  const auto quantile = [](std::vector<double>& of, double share) {
    std::sort(of.begin(), of.end());
    return of[static_cast<std::size_t>(share * static_cast<double>(of.size() - 1))];
  };
  const auto span = std::chrono::duration<double>(turns.back().granted - turns.front().granted);
  found.handovers_per_second = static_cast<double>(waits.size()) / span.count();
  found.p50_ms = quantile(waits, 0.5);
  found.p99_ms = quantile(waits, 0.99);
  found.p99_all_ms = quantile(all_waits, 0.99);
  found.out_of_order = static_cast<double>(overtakers) / static_cast<double>(turns.size());
  return found;
}

}  // namespace

int run_contenders(const std::vector<std::string>& arguments) {
  const bool ours = arguments.at(0) == "ours";
  const std::string& host = arguments.at(1);
  const int port = std::stoi(arguments.at(2));
  const milliseconds time{std::stoll(arguments.at(3))};
  const int first_contender = std::stoi(arguments.at(4));

  LockClient client("redis://" + host + ":" + std::to_string(port),
                    {.observer = std::make_shared<QueuedAt>()});
  std::mutex mutex;
  std::vector<Turn> turns;
  const auto end = steady_clock::now() + time;
  {
    std::vector<std::jthread> contenders;
    for (int i = 0; i < threads_each; ++i) {
      contenders.emplace_back([&, contender = first_contender + i] {
        RawRedisLock raw(host, port);
        const std::string owner = random_hex(16);
        std::vector<Turn> own;
        while (steady_clock::now() < end) {
          own.push_back(ours ? take_turn(client, raw) : take_turn(raw, owner));
          own.back().contender = contender;
        }
        const std::lock_guard guard(mutex);
        turns.insert(turns.end(), own.begin(), own.end());
      });
    }
  }
  for (const Turn& turn : turns) {
    std::cout << turn.asked.count() << ' ' << turn.in_line.count() << ' ' << turn.granted.count()
              << ' ' << turn.contender << '\n';
  }
  return 0;
}

Result hot_lock_handover(LockBench& bench, const std::string& name) {
  const milliseconds slice = std::max(bench.options.time / 4, milliseconds{500});
  std::vector<double> ratios;
  Found ours;
  Found reference;
  double out_of_order = 0;
  double spread = 0;
  for (int round = 0; round < 2; ++round) {
    bench.progress.show(name + ": round " + std::to_string(round + 1) + " of 2");
    ours = evaluate(contend(bench, "ours", slice));
    reference = evaluate(contend(bench, "polling", slice));
    out_of_order = std::max(out_of_order, ours.out_of_order);
    spread = std::max(spread, ours.p99_ms / ours.p50_ms);
    ratios.push_back(reference.p99_ms / ours.p99_ms);
  }
  return {.name = name,
          .unit = "ms wait p99 of a handover",
          .ours = ours.p99_ms,
          .reference = reference.p99_ms,
          .reference_name = "SET NX PX every 10 ms with jitter",
          .ratio = *std::min_element(ratios.begin(), ratios.end()),
          .target = 5,
          .extra = {{"wait_p50_ms", ours.p50_ms},
                    {"reference_wait_p50_ms", reference.p50_ms},
                    {"wait_p99_ms_of_all_turns", ours.p99_all_ms},
                    {"reference_wait_p99_ms_of_all_turns", reference.p99_all_ms},
                    {"handovers_per_s", ours.handovers_per_second},
                    {"reference_handovers_per_s", reference.handovers_per_second},
                    {"wait_p99_over_p50", spread},
                    {"out_of_order_share", out_of_order}},
          .at_most = {{"out_of_order_share", 0}, {"wait_p99_over_p50", 2}}};
}

}  // namespace leasehold::bench
