// leasehold load: many clients at the same locks, with an eye on the promises.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <deque>
#include <iostream>
#include <mutex>
#include <optional>
#include <random>
#include <stop_token>
#include <thread>

#include "commands.hpp"
#include "leasehold/errors.hpp"
#include "leasehold/lock_client.hpp"
#include "locks/validation.hpp"
#include "support/sleep.hpp"
#include "table.hpp"
#include "text.hpp"
#include "worker/signals.hpp"

namespace leasehold::cli {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using namespace std::chrono_literals;

struct LoadFlags {
  std::string clients = "8";
  std::string duration = "10s";
  std::string locks = "1";
  std::string prefix = "leasehold-load";
  std::string ttl = "10s";
  std::string hold = "0ms";
  bool shared = false;
};

struct LoadOptions {
  std::size_t clients;
  milliseconds duration;
  std::size_t locks;
  std::string prefix;
  milliseconds ttl;
  milliseconds hold;
  bool shared;
};

/// What is known about one lock by all clients of this process: whoever trusts its lock at this
/// moment, and the largest token so far.
class Witness {
 public:
  /// A grant. Counts it as a violation if somebody else still trusts an earlier one, or if the
  /// token did not grow.
  void enter(const Lock& lock, std::atomic<std::uint64_t>& two_holders,
             std::atomic<std::uint64_t>& tokens_not_growing) {
    const std::lock_guard guard(mutex_);
    const bool late = lock.token() <= last_token_;
    const bool two = holder_ != nullptr && holder_->valid();
    // Asked last: one whose lease ended on the way here may meet the next holder, as it should.
    if (lock.valid()) {
      if (late) ++tokens_not_growing;
      if (two) ++two_holders;
    }
    last_token_ = std::max(last_token_, lock.token());
    holder_ = &lock;
  }

  /// Before the release: afterwards the next holder may be in already.
  void leave(const Lock& lock) {
    const std::lock_guard guard(mutex_);
    if (holder_ == &lock) holder_ = nullptr;
  }

 private:
  std::mutex mutex_;
  const Lock* holder_ = nullptr;  // protected by mutex_, as the token
  FencingToken last_token_;
};

class Load {
 public:
  Load(const Stores& stores, LoadOptions options)
      : stores_(stores), options_(std::move(options)), witnesses_(options_.locks) {}

  /// Until the time is over or the stop token fires. `tick` is called now and then.
  template <typename Tick>
  void run(const std::stop_token& stop, Tick tick) {
    // Made beforehand, and a connection too: that is not what is measured.
    std::deque<LockClient> clients;
    const std::size_t number = options_.shared ? 1 : options_.clients;
    for (std::size_t i = 0; i < number; ++i) clients.emplace_back(stores_.locks()).status("-");
    const auto began = steady_clock::now();
    std::stop_source end;
    std::vector<std::jthread> threads;
    samples_.resize(options_.clients);
    for (std::size_t i = 0; i < options_.clients; ++i) {
      threads.emplace_back([this, i, &client = clients[i % number], token = end.get_token()] {
        work(client, i, token);
      });
    }
    while (steady_clock::now() - began < options_.duration && !stop.stop_requested()) {
      sleep_for(50ms, stop);
      tick(std::chrono::duration_cast<milliseconds>(steady_clock::now() - began));
    }
    end.request_stop();
    threads.clear();
    elapsed_ = steady_clock::now() - began;
  }

  std::uint64_t violations() const { return two_holders_ + tokens_not_growing_; }
  std::uint64_t pairs() const { return pairs_; }

  ExitCode report(const Session& session) {
    std::vector<std::uint32_t> all;
    for (const auto& samples : samples_) all.insert(all.end(), samples.begin(), samples.end());
    std::ranges::sort(all);
    const auto quantile = [&](double share) {
      if (all.empty()) return 0.0;
      const auto at = static_cast<std::size_t>(share * static_cast<double>(all.size() - 1));
      return all[at] / 1000.0;
    };
    const double seconds = std::chrono::duration<double>(elapsed_).count();
    const double rate = static_cast<double>(pairs_) / seconds;
    if (session.json) {
      Session::print({{"clients", options_.clients},
                      {"locks", options_.locks},
                      {"seconds", seconds},
                      {"pairs", pairs_.load()},
                      {"pairs_per_second", rate},
                      {"acquire_ms", {{"p50", quantile(0.5)}, {"p99", quantile(0.99)}}},
                      {"not_acquired", refused_.load()},
                      {"lost", lost_.load()},
                      {"errors", errors_.load()},
                      {"last_error", last_error()},
                      {"two_holders", two_holders_.load()},
                      {"tokens_not_growing", tokens_not_growing_.load()}});
    } else {
      Facts facts;
      const auto shown = [](double number, int digits) {
        char text[32];
        std::snprintf(text, sizeof text, "%.*f", digits, number);
        return std::string(text);
      };
      facts.add("clients", std::to_string(options_.clients) + " at " +
                               std::to_string(options_.locks) + " locks for " + shown(seconds, 1) +
                               " s");
      facts.add("pairs", with_commas(pairs_) + ", " +
                             with_commas(static_cast<std::uint64_t>(rate)) + " a second");
      facts.add("acquire",
                "p50 " + shown(quantile(0.5), 2) + " ms, p99 " + shown(quantile(0.99), 2) + " ms");
      facts.add("not acquired", with_commas(refused_));
      facts.add("lost", with_commas(lost_));
      facts.add("errors",
                with_commas(errors_) + (errors_ == 0 ? "" : ", the last: " + last_error()));
      const Colour colour = violations() == 0 ? Colour::green : Colour::red;
      facts.add("two holders", {with_commas(two_holders_), colour});
      facts.add("tokens not growing", {with_commas(tokens_not_growing_), colour});
      std::cout << facts.render(session.terminal);
    }
    if (violations() > 0) throw Failure(ExitCode::failed, "the locks broke their promise");
    if (pairs_ == 0 && last_failure_) throw *last_failure_;
    return ExitCode::done;
  }

 private:
  std::string last_error() const { return last_failure_ ? last_failure_->what() : ""; }

  void work(LockClient& client, std::size_t index, const std::stop_token& stop) {
    std::minstd_rand random(static_cast<unsigned>(index + 1));
    while (!stop.stop_requested()) {
      const std::size_t chosen = random() % options_.locks;
      try {
        pair(client, chosen, samples_[index], stop);
      } catch (const Error& error) {
        ++errors_;
        {
          const std::lock_guard guard(error_mutex_);
          last_failure_ = as_failure(error);
        }
        sleep_for(100ms, stop);
      }
    }
  }

  void pair(LockClient& client, std::size_t chosen, std::vector<std::uint32_t>& samples,
            const std::stop_token& stop) {
    Witness& witness = witnesses_[chosen];
    const auto asked = steady_clock::now();
    auto lock = client.acquire(options_.prefix + ":" + std::to_string(chosen),
                               {.ttl = options_.ttl, .wait = 10s}, stop);
    if (!lock) {
      if (!stop.stop_requested()) ++refused_;
      return;
    }
    witness.enter(*lock, two_holders_, tokens_not_growing_);
    const auto waited = std::chrono::duration_cast<microseconds>(steady_clock::now() - asked);
    if (samples.size() < most_samples)
      samples.push_back(static_cast<std::uint32_t>(waited.count()));
    if (options_.hold > 0ms) sleep_for(options_.hold, stop);
    witness.leave(*lock);
    if (lock->release() == Release::was_lost) ++lost_;
    ++pairs_;
  }

  static constexpr std::size_t most_samples = 4'000'000;

  const Stores& stores_;
  const LoadOptions options_;
  std::deque<Witness> witnesses_;
  std::vector<std::vector<std::uint32_t>> samples_;  // of each client, in microseconds
  steady_clock::duration elapsed_{};
  std::atomic<std::uint64_t> pairs_{0};
  std::atomic<std::uint64_t> refused_{0};
  std::atomic<std::uint64_t> lost_{0};
  std::atomic<std::uint64_t> errors_{0};
  std::atomic<std::uint64_t> two_holders_{0};
  std::atomic<std::uint64_t> tokens_not_growing_{0};
  std::mutex error_mutex_;
  std::optional<Failure> last_failure_;  // protected by error_mutex_
};

ExitCode run_load(Session& session, const LoadFlags& flags) {
  const LoadOptions options{
      .clients = static_cast<std::size_t>(parse_number("--clients", flags.clients, 1, 256)),
      .duration = parse_duration("--duration", flags.duration, 1ms, 24h),
      .locks = static_cast<std::size_t>(parse_number("--locks", flags.locks, 1, 100'000)),
      .prefix = flags.prefix,
      .ttl = parse_duration("--ttl", flags.ttl, 20ms, 24h),
      .hold = parse_duration("--hold", flags.hold, 0ms, 1h),
      .shared = flags.shared};
  check_lock_name(options.prefix + ":" + std::to_string(options.locks));
  session.stores.lock_uri();  // says how to name one, if there is none
  const worker::Signals signals;
  std::stop_source stop;
  Load load(session.stores, options);
  {
    Progress progress("loading", static_cast<std::uint64_t>(options.duration.count()));
    load.run(stop.get_token(), [&](milliseconds so_far) {
      if (signals.wait(0ms) != 0) stop.request_stop();  // reports what was seen until then
      progress.show(
          static_cast<std::uint64_t>(so_far.count()),
          with_commas(load.pairs()) + " pairs, " + with_commas(load.violations()) + " violations");
    });
  }
  return load.report(session);
}

}  // namespace

void add_load(Commands& commands) {
  auto flags = std::make_shared<LoadFlags>();
  CLI::App& app = commands.add(
      commands.root(),
      {.name = "load",
       .summary = "Load a lock store, and check that it keeps its promises",
       .details =
           "Clients acquire and release locks as fast as they can, and it is checked that never "
           "two trust the same lock and that its tokens strictly grow. Says how many pairs of "
           "acquire and release there were a second and how long acquiring took. Exit code 1 if a "
           "promise was broken. The locks have names of their own; they disturb others only by "
           "the load.",
       .examples = "leasehold load --redis redis://127.0.0.1:6379 --clients 16 --duration 30s\n"
                   "leasehold load --clients 64 --locks 1000 --shared --json"},
      {.locks = true}, [flags](Session& session) { return run_load(session, *flags); });
  const auto add = [&](const char* name, std::string& value, const char* type, const char* help) {
    app.add_option(name, value, help)->type_name(type);
  };
  add("--clients", flags->clients, "NUMBER", "At the same time, 1 to 256 [8]");
  add("--duration", flags->duration, "TIME", "How long [10s]");
  add("--locks", flags->locks, "NUMBER", "Among how many locks each chooses [1]");
  add("--prefix", flags->prefix, "TEXT", "What their names begin with [leasehold-load]");
  add("--ttl", flags->ttl, "TIME", "Of each lock [10s]");
  add("--hold", flags->hold, "TIME", "How long each is held [0ms]");
  app.add_flag("--shared", flags->shared,
               "All share one connection, as threads of one program do; else each has its own")
      ->disable_flag_override();
}

}  // namespace leasehold::cli
