// leasehold load: many clients use the same locks, and it is checked that the guarantees hold.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <deque>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <stop_token>
#include <thread>

#include "commands.hpp"
#include "common/signals.hpp"
#include "flag_values.hpp"
#include "leasehold/errors.hpp"
#include "leasehold/lock_client.hpp"
#include "support/sleep.hpp"
#include "support/thread_safety.hpp"
#include "table.hpp"
#include "text.hpp"

namespace leasehold::cli {
namespace {

using nlohmann::ordered_json;
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

/// Counts violations of the guarantees.
struct Violations {
  std::atomic<std::uint64_t> two_holders{0};
  std::atomic<std::uint64_t> tokens_not_growing{0};

  std::uint64_t total() const { return two_holders + tokens_not_growing; }
};

/// What all clients of this process know about one lock: who trusts it at this moment, and its
/// largest token so far.
class Witness {
 public:
  /// Call it after a grant. It is a violation if another client still trusts an earlier grant, or
  /// if the token did not grow.
  void enter(const Lock& lock, Violations& violations) {
    const ThreadLock guard(mutex_);
    const bool late = lock.token() <= last_token_;
    const bool two = holder_ != nullptr && holder_->valid();
    // Asked last: a lock that expired on the way here may rightly meet the next holder.
    if (lock.valid()) {
      if (late) ++violations.tokens_not_growing;
      if (two) ++violations.two_holders;
    }
    last_token_ = std::max(last_token_, lock.token());
    holder_ = &lock;
  }

  /// Call it before the release: afterwards the next holder may have entered.
  void leave(const Lock& lock) {
    const ThreadLock guard(mutex_);
    if (holder_ == &lock) holder_ = nullptr;
  }

 private:
  ThreadMutex mutex_;
  const Lock* holder_ LEASEHOLD_GUARDED_BY(mutex_) = nullptr;
  FencingToken last_token_ LEASEHOLD_GUARDED_BY(mutex_);
};

/// The result of a run.
struct LoadReport {
  double seconds = 0;
  std::uint64_t pairs = 0;
  double pairs_per_second = 0;
  double p50_ms = 0;  ///< of an acquire
  double p99_ms = 0;
  std::uint64_t not_acquired = 0;
  std::uint64_t lost = 0;
  std::map<ExitCode, std::uint64_t> errors;  ///< calls that failed, by the kind of failure
  std::optional<Failure> last_failure;
  std::uint64_t two_holders = 0;
  std::uint64_t tokens_not_growing = 0;

  std::uint64_t violations() const { return two_holders + tokens_not_growing; }
  std::uint64_t failed_calls() const {
    std::uint64_t sum = 0;
    for (const auto& [kind, number] : errors) sum += number;
    return sum;
  }
  std::string last_error() const { return last_failure ? last_failure->what() : ""; }
};

class Load {
 public:
  Load(const Stores& stores, LoadOptions options)
      : stores_(stores), options_(std::move(options)), witnesses_(options_.locks) {}

  /// Runs until the time is over or the stop token fires. Calls `tick` now and then.
  template <typename Tick>
  void run(const std::stop_token& stop, Tick tick) {
    std::deque<LockClient> clients = connect();
    const auto began = steady_clock::now();
    std::stop_source end;
    std::vector<std::jthread> threads;
    samples_.resize(options_.clients);
    for (std::size_t i = 0; i < options_.clients; ++i) {
      threads.emplace_back([this, i, &client = clients[i % clients.size()],
                            token = end.get_token()] { work(client, i, token); });
    }
    while (steady_clock::now() - began < options_.duration && !stop.stop_requested()) {
      sleep_for(50ms, stop);
      tick(std::chrono::duration_cast<milliseconds>(steady_clock::now() - began));
    }
    end.request_stop();
    threads.clear();
    elapsed_ = steady_clock::now() - began;
  }

  std::uint64_t pairs() const { return pairs_; }
  std::uint64_t violations() const { return violations_.total(); }

  LoadReport report() {
    std::vector<std::uint32_t> all;
    for (const auto& samples : samples_) all.insert(all.end(), samples.begin(), samples.end());
    std::ranges::sort(all);
    const auto quantile = [&](double share) {
      if (all.empty()) return 0.0;
      const auto at = static_cast<std::size_t>(share * static_cast<double>(all.size() - 1));
      return all[at] / 1000.0;
    };
    const double seconds = std::chrono::duration<double>(elapsed_).count();
    const ThreadLock guard(mutex_);
    return {.seconds = seconds,
            .pairs = pairs_,
            .pairs_per_second = static_cast<double>(pairs_) / seconds,
            .p50_ms = quantile(0.5),
            .p99_ms = quantile(0.99),
            .not_acquired = refused_,
            .lost = lost_,
            .errors = errors_,
            .last_failure = last_failure_,
            .two_holders = violations_.two_holders,
            .tokens_not_growing = violations_.tokens_not_growing};
  }

 private:
  /// Makes the clients and their connections in advance: that is not what is measured. Also checks
  /// the prefix, by asking for the longest name.
  std::deque<LockClient> connect() const {
    std::deque<LockClient> clients;
    const std::size_t number = options_.shared ? 1 : options_.clients;
    const std::string longest = options_.prefix + ":" + std::to_string(options_.locks);
    for (std::size_t i = 0; i < number; ++i) clients.emplace_back(stores_.locks()).status(longest);
    return clients;
  }

  void work(LockClient& client, std::size_t index, const std::stop_token& stop) {
    std::minstd_rand random(static_cast<unsigned>(index + 1));
    while (!stop.stop_requested()) {
      const std::size_t chosen = random() % options_.locks;
      try {
        acquire_and_release(client, chosen, samples_[index], stop);
      } catch (const Error& error) {
        {
          const ThreadLock guard(mutex_);
          last_failure_ = as_failure(error);
          ++errors_[last_failure_->code()];
        }
        sleep_for(100ms, stop);
      }
    }
  }

  void acquire_and_release(LockClient& client, std::size_t chosen,
                           std::vector<std::uint32_t>& samples, const std::stop_token& stop) {
    Witness& witness = witnesses_[chosen];
    const auto asked = steady_clock::now();
    auto lock = client.acquire(options_.prefix + ":" + std::to_string(chosen),
                               {.ttl = options_.ttl, .wait = 10s}, stop);
    if (!lock) {
      if (!stop.stop_requested()) ++refused_;
      return;
    }
    witness.enter(*lock, violations_);
    const auto waited = std::chrono::duration_cast<microseconds>(steady_clock::now() - asked);
    if (samples.size() < most_samples) {
      samples.push_back(static_cast<std::uint32_t>(waited.count()));
    }
    if (options_.hold > 0ms) sleep_for(options_.hold, stop);
    witness.leave(*lock);
    if (lock->release() == Release::was_lost) ++lost_;
    ++pairs_;
  }

  static constexpr std::size_t most_samples = 4'000'000;

  const Stores& stores_;
  const LoadOptions options_;
  std::deque<Witness> witnesses_;
  std::vector<std::vector<std::uint32_t>> samples_;  // one for each client, in microseconds
  steady_clock::duration elapsed_{};
  std::atomic<std::uint64_t> pairs_{0};
  std::atomic<std::uint64_t> refused_{0};
  std::atomic<std::uint64_t> lost_{0};
  Violations violations_;
  ThreadMutex mutex_;
  std::map<ExitCode, std::uint64_t> errors_ LEASEHOLD_GUARDED_BY(mutex_);
  std::optional<Failure> last_failure_ LEASEHOLD_GUARDED_BY(mutex_);
};

/// What kind of failure an exit code stands for.
const char* kind_of(ExitCode code) {
  switch (code) {
    case ExitCode::unreachable:
      return "unreachable";
    case ExitCode::unknown:
      return "outcome_unknown";
    default:
      return "refused";
  }
}

std::map<std::string, std::uint64_t> errors_by_kind(const LoadReport& report) {
  std::map<std::string, std::uint64_t> kinds;
  for (const auto& [code, number] : report.errors) kinds[kind_of(code)] += number;
  return kinds;
}

/// "160: 158 unreachable, 2 outcome_unknown; the last: …"
std::string words_for_errors(const LoadReport& report) {
  if (report.errors.empty()) return "0";
  std::vector<std::string> kinds;
  for (const auto& [kind, number] : errors_by_kind(report)) {
    kinds.push_back(with_commas(number) + " " + kind);
  }
  return with_commas(report.failed_calls()) + ": " + joined(kinds, ", ") +
         "; the last: " + report.last_error();
}

ordered_json as_json(const LoadReport& report, const LoadOptions& options) {
  return {{"clients", options.clients},
          {"locks", options.locks},
          {"seconds", report.seconds},
          {"pairs", report.pairs},
          {"pairs_per_second", report.pairs_per_second},
          {"acquire_ms", {{"p50", report.p50_ms}, {"p99", report.p99_ms}}},
          {"not_acquired", report.not_acquired},
          {"lost", report.lost},
          {"errors", report.failed_calls()},
          {"errors_by_kind", errors_by_kind(report)},
          {"last_error", report.last_error()},
          {"two_holders", report.two_holders},
          {"tokens_not_growing", report.tokens_not_growing}};
}

std::string with_digits(double number, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, number);
  return text;
}

Facts facts_of(const LoadReport& report, const LoadOptions& options) {
  Facts facts;
  facts.add("load", std::to_string(options.clients) + " clients, " + std::to_string(options.locks) +
                        (options.locks == 1 ? " lock, " : " locks, ") +
                        with_digits(report.seconds, 1) + " s");
  facts.add("pairs", with_commas(report.pairs) + ", " +
                         with_commas(static_cast<std::uint64_t>(report.pairs_per_second)) +
                         " a second");
  facts.add("acquire", "p50 " + with_digits(report.p50_ms, 2) + " ms, p99 " +
                           with_digits(report.p99_ms, 2) + " ms");
  facts.add("not acquired", with_commas(report.not_acquired));
  facts.add("lost", with_commas(report.lost));
  facts.add("errors", words_for_errors(report));
  const Colour colour = report.violations() == 0 ? Colour::green : Colour::red;
  facts.add("two holders", {with_commas(report.two_holders), colour});
  facts.add("tokens not growing", {with_commas(report.tokens_not_growing), colour});
  return facts;
}

ExitCode run_load(Session& session, const LoadFlags& flags) {
  const LoadOptions options{
      .clients = static_cast<std::size_t>(parse_number("--clients", flags.clients, 1, 256)),
      .duration = parse_duration("--duration", flags.duration, 1ms, 24h),
      .locks = static_cast<std::size_t>(parse_number("--locks", flags.locks, 1, 100'000)),
      .prefix = flags.prefix,
      .ttl = parse_duration("--ttl", flags.ttl, 20ms, 24h),
      .hold = parse_duration("--hold", flags.hold, 0ms, 1h),
      .shared = flags.shared};
  session.stores.lock_uri();  // fails early, and says how to set it, if there is none
  const common::Signals signals;
  std::stop_source stop;
  Load load(session.stores, options);
  {
    Progress progress("loading", static_cast<std::uint64_t>(options.duration.count()));
    load.run(stop.get_token(), [&](milliseconds so_far) {
      if (signals.wait(0ms) != 0) stop.request_stop();  // what was seen until then is reported
      progress.show(
          static_cast<std::uint64_t>(so_far.count()),
          with_commas(load.pairs()) + " pairs, " + with_commas(load.violations()) + " violations");
    });
  }
  const LoadReport report = load.report();
  if (session.json) {
    Session::print(as_json(report, options));
  } else {
    std::cout << facts_of(report, options).render(session.terminal);
  }
  if (report.violations() > 0) {
    throw Failure(ExitCode::failed, "the locks broke a guarantee: see the last two numbers");
  }
  if (report.pairs == 0 && report.last_failure) throw *report.last_failure;
  if (report.last_failure) {
    throw Failure(
        ExitCode::failed,
        with_commas(report.failed_calls()) + " calls failed, the last with: " + report.last_error(),
        "No guarantee was broken, but the store did not always answer");
  }
  return ExitCode::done;
}

}  // namespace

void add_load(Commands& commands) {
  auto flags = std::make_shared<LoadFlags>();
  CLI::App& app = commands.add(
      commands.root(),
      {.name = "load",
       .summary = "Put load on the lock store, and check its guarantees",
       .details =
           "Clients acquire and release locks as fast as they can. The command checks that no two "
           "of them trust the same lock at the same time, and that tokens strictly increase. It "
           "prints the pairs of acquire and release per second, the time to acquire, and how many "
           "calls failed in which way.\n\n"
           "The exit code is the first of these that applies: 1 if a guarantee was broken; the "
           "code of the last error if no lock was acquired and released at all, for example 4 if "
           "the store could not be reached; 1 if some calls failed; otherwise 0. The locks have "
           "names of their own, so others notice only the load.",
       .examples = "leasehold load --redis redis://127.0.0.1:6379 --clients 16 --duration 30s\n"
                   "leasehold load --clients 64 --locks 1000 --shared --json"},
      {.locks = true}, [flags](Session& session) { return run_load(session, *flags); });
  add_value(app, "--clients", flags->clients, "NUMBER", "Number of clients, 1 to 256 [8]");
  add_value(app, "--duration", flags->duration, "TIME", "How long to run [10s]");
  add_value(app, "--locks", flags->locks, "NUMBER",
            "Number of locks that the clients choose from [1]");
  add_value(app, "--prefix", flags->prefix, "TEXT",
            "First part of the locks' names [leasehold-load]");
  add_value(app, "--ttl", flags->ttl, "TIME", "Time to live of each lock [10s]");
  add_value(app, "--hold", flags->hold, "TIME", "How long each lock is held [0ms]");
  app.add_flag("--shared", flags->shared,
               "Let all clients share one connection, like the threads of one program")
      ->disable_flag_override();
}

}  // namespace leasehold::cli
