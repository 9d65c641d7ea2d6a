#include "tests/history/lock_workload.hpp"

#include <spdlog/logger.h>
#include <spdlog/sinks/null_sink.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "leasehold/locks.hpp"
#include "tests/history/history.hpp"
#include "tests/support/signal.hpp"

namespace leasehold::testing {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Few locks for many threads. Nobody is robbed on the first three kinds, so that there the whole of
// every trusted time is protected.
constexpr int plain_locks = 3;
constexpr int shared_locks = 2;
constexpr int semaphores = 1;
constexpr int permits = 2;
constexpr int disputed_locks = 2;

// For those who have lost a lock to be told so. It takes no time, unless the machine is very busy.
constexpr std::chrono::seconds time_to_be_told{20};

/// Chance, repeatable as far as threads let it be.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  int between(int least, int most) {
    return std::uniform_int_distribution<int>{least, most}(engine_);
  }
  bool percent(int chance) { return between(1, 100) <= chance; }
  std::string one_of(const std::string& prefix, int count) {
    return prefix + std::to_string(between(0, count - 1));
  }
  std::size_t index(std::size_t count) { return engine_() % count; }
  std::uint64_t seed() { return engine_(); }

 private:
  std::mt19937_64 engine_;
};

std::int64_t in_history(steady_clock::time_point time) {
  return time.time_since_epoch() / std::chrono::nanoseconds{1};
}

LockClientOptions client_options(const LockWorkload& workload) {
  LockClientOptions options;
  options.redis.command_timeout = milliseconds{300};
  options.replicas = workload.replicas;
  options.replicas.timeout = options.redis.command_timeout / 2;
  options.redis.connect_timeout = milliseconds{300};
  options.sqlite.timeout = milliseconds{300};
  options.keep_stale_records = milliseconds{2'000};
  // Counters expire all the time; but not during a failover, after which they must not go back.
  if (workload.work != Work::hold) options.keep_counters = milliseconds{1'000};
  options.logger =
      std::make_shared<spdlog::logger>("quiet", std::make_shared<spdlog::sinks::null_sink_mt>());
  return options;
}

/// A file is looked at when it is opened, and others may be in the way for longer than the
/// time-out.
LockClient open_client(const LockWorkload& workload) {
  for (const auto deadline = steady_clock::now() + std::chrono::minutes{1};;) {
    try {
      return LockClient{workload.uri, client_options(workload)};
    } catch (const Unavailable&) {
      if (steady_clock::now() > deadline) throw;
    }
  }
}

LockClient make_client(const LockWorkload& workload) {
  if (workload.bug == PlantedBug::none) return open_client(workload);
  const LockClientOptions options = client_options(workload);
  return LockClient{plant(workload.bug, connect_redis(workload.uri, options.redis)), options};
}

/// Of the refusals that a fault explains.
std::string name_of(ServerRefused::Reason reason) {
  switch (reason) {
    case ServerRefused::Reason::out_of_memory:
      return "out_of_memory";
    case ServerRefused::Reason::read_only:
      return "read_only";
    case ServerRefused::Reason::loading:
      return "loading";
    case ServerRefused::Reason::no_primary:
      return "no_primary";
    case ServerRefused::Reason::busy:
      return "script_busy";
    default:
      return "other";
  }
}

/// Fires a stop token after a while, or when the work is to stop. Costs a thread: used seldom.
class Canceller {
 public:
  explicit Canceller(milliseconds after)
      : thread_([this, after](const std::stop_token& done) {
          std::mutex mutex;
          std::condition_variable_any ended;
          std::unique_lock guard(mutex);
          ended.wait_for(guard, done, after, [] { return false; });
          source_.request_stop();
        }) {}
  std::stop_token token() const { return source_.get_token(); }

 private:
  std::stop_source source_;
  std::jthread thread_;
};

/// One thread's work.
class Worker {
 public:
  Worker(const LockWorkload& workload, LockClient& client, std::shared_ptr<const Recorder> recorder,
         int thread, std::uint64_t seed)
      : workload_(workload),
        client_(client),
        recorder_(std::move(recorder)),
        thread_(thread),
        dice_(seed) {}

  void work_once() {
    if (workload_.work == Work::wait) return wait_in_line();
    if (workload_.work == Work::hold) return take_and_hold();
    const int chance = dice_.between(1, 100);
    if (chance <= 35) {
      take_alone(dice_.one_of("plain-", plain_locks));
    } else if (chance <= 55) {
      const std::string name = dice_.one_of("shared-", shared_locks);
      if (dice_.percent(30)) {
        take_alone(name);
      } else {
        take_shared(name);
      }
    } else if (chance <= 70) {
      take_permit(dice_.one_of("permits-", semaphores));
    } else if (chance <= 80) {
      take_several();
    } else {
      dispute(dice_.one_of("disputed-", disputed_locks));
    }
  }

 private:
  // What is written down.

  Event event(const std::string& grant, const std::string& lock, Op op, Phase phase) const {
    Event event;
    event.time = history_now();
    event.process = workload_.process;
    event.thread = thread_;
    event.grant = grant;
    event.lock = lock;
    event.op = op;
    event.phase = phase;
    return event;
  }

  std::string new_grant() {
    return workload_.process + "." + std::to_string(thread_) + "." + std::to_string(++grants_);
  }

  Event invoke_acquire(const std::string& lock, Kind kind, const LockOptions& options) {
    Event begun = event(new_grant(), lock, Op::acquire, Phase::invoke);
    begun.kind = kind;
    begun.limit = kind == Kind::permit ? permits : 0;
    begun.ttl = std::chrono::nanoseconds{options.ttl}.count();
    begun.overrides =
        options.on_conflict == OnConflict::force || options.on_conflict == OnConflict::steal_stale;
    recorder_->record(begun);
    return begun;
  }

  void end_acquire(const Event& invoke, const Lock& lock) const {
    Event ended = invoke;
    ended.time = history_now();
    ended.phase = Phase::ok;
    ended.token = lock.token().value;
    ended.until = trusted_until(lock);
    recorder_->record(ended);
  }

  void end_acquire(const Event& invoke, Phase phase, const std::string& reason) const {
    Event ended = invoke;
    ended.time = history_now();
    ended.phase = phase;
    ended.reason = reason;
    recorder_->record(ended);
  }

  /// 0 if it is not trusted.
  static std::int64_t trusted_until(const Lock& lock) {
    const auto until = lock.valid_until();  // before the question: it only grows
    return lock.valid() ? in_history(until) : 0;
  }

  bool check(const std::string& grant, const Lock& lock) const {
    Event seen = event(grant, lock.name(), Op::check, Phase::ok);
    seen.until = trusted_until(lock);
    if (seen.until == 0) seen.phase = Phase::fail;
    recorder_->record(seen);
    return seen.phase == Phase::ok;
  }

  // Ways to take a lock.

  LockOptions some_options() {
    LockOptions options;
    options.ttl = milliseconds{dice_.between(40, longest_ttl.count())};
    options.wait = milliseconds{dice_.percent(20) ? 0 : dice_.between(1, 300)};
    if (dice_.percent(40)) options.heartbeat = Heartbeat::manual;
    if (dice_.percent(10)) options.max_hold = milliseconds{dice_.between(30, 150)};
    if (dice_.percent(10)) options.on_conflict = OnConflict::fail_fast;
    if (dice_.percent(10)) {
      options.on_conflict = OnConflict::retry;
      options.retry.first = milliseconds{5};
    }
    if (dice_.percent(5)) options.queueing = Queueing::barging;
    options.priority = dice_.percent(20) ? dice_.between(-2, 2) : 0;
    return options;
  }

  /// On a thread of the client, perhaps long after the handle is gone.
  auto loss_recorder(const Event& invoke) const {
    return [recorder = recorder_, seen = invoke](const LockLoss& loss) mutable {
      seen.time = history_now();
      seen.op = Op::watch;
      seen.phase = Phase::lost;
      seen.reason = to_string(loss.reason);
      recorder->record(seen);
    };
  }

  /// Calls `acquire` with the options and, one time in ten, a stop token that will fire.
  template <typename Acquire>
  auto with_stop(const LockOptions& options, Acquire&& acquire) {
    std::optional<Canceller> canceller;
    if (dice_.percent(10)) canceller.emplace(milliseconds{dice_.between(0, 50)});
    return acquire(options, canceller ? canceller->token() : std::stop_token{});
  }

  /// Calls `acquire`, and `not_granted` with the phase and the reason if it fails in a way that a
  /// fault explains.
  template <typename Acquire, typename NotGranted>
  static void attempt(Acquire&& acquire, NotGranted&& not_granted) {
    try {
      acquire();
    } catch (const OutcomeUnknown&) {
      not_granted(Phase::unknown, "outcome_unknown");
    } catch (const Unavailable&) {
      not_granted(Phase::fail, "unavailable");
    } catch (const ServerRefused& error) {
      if (!error.transient()) throw;
      not_granted(Phase::fail, name_of(error.reason()));
    }
  }

  template <typename Acquire>
  void take(const std::string& name, Kind kind, LockOptions options, Acquire&& acquire) {
    const Event invoke = invoke_acquire(name, kind, options);
    const auto not_granted = [&](Phase phase, const std::string& reason) {
      end_acquire(invoke, phase, reason);
    };
    options.on_lost = loss_recorder(invoke);
    attempt(
        [&] {
          auto lock = with_stop(options, acquire);
          if (!lock) return not_granted(Phase::fail, "busy");
          end_acquire(invoke, *lock);
          use(invoke.grant, kind, options, *std::move(lock));
        },
        not_granted);
  }

  void take_alone(const std::string& name) { take_alone(name, some_options()); }
  void take_alone(const std::string& name, const LockOptions& options) {
    take(name, Kind::exclusive, options, [&](const LockOptions& with, std::stop_token stop) {
      return client_.acquire(name, with, std::move(stop));
    });
  }

  void take_shared(const std::string& name) { take_shared(name, some_options()); }
  void take_shared(const std::string& name, const LockOptions& options) {
    take(name, Kind::shared, options, [&](const LockOptions& with, std::stop_token stop) {
      return SharedLock{client_, name}.read(with, std::move(stop));
    });
  }

  void take_permit(const std::string& name) {
    LockOptions options = some_options();
    if (dice_.percent(3)) options.on_conflict = OnConflict::force;  // one more than there are
    take(name, Kind::permit, options, [&](const LockOptions& with, std::stop_token stop) {
      return Semaphore{client_, name, permits}.acquire(with, std::move(stop));
    });
  }

  void take_several() {
    LockOptions options = some_options();
    if (options.on_conflict != OnConflict::fail_fast) options.on_conflict = OnConflict::wait;
    const int first = dice_.between(0, plain_locks - 1);
    std::map<std::string, Event> invokes;
    for (const int i : {first, (first + 1) % plain_locks}) {
      const std::string name = "plain-" + std::to_string(i);
      invokes.emplace(name, invoke_acquire(name, Kind::exclusive, options));
    }
    const auto not_granted = [&](Phase phase, const std::string& reason) {
      for (const auto& [name, invoke] : invokes) end_acquire(invoke, phase, reason);
    };
    attempt(
        [&] {
          std::vector<std::string> names;
          for (const auto& [name, invoke] : invokes) names.push_back(name);
          auto set = with_stop(options, [&](const LockOptions& with, std::stop_token stop) {
            return client_.acquire_all(names, with, std::move(stop));
          });
          if (!set) return not_granted(Phase::fail, "busy");
          for (const Lock& lock : set->locks()) end_acquire(invokes.at(lock.name()), lock);
          for (Lock& lock : set->locks()) {
            const std::string grant = invokes.at(lock.name()).grant;
            use(grant, Kind::exclusive, options, std::move(lock));
          }
        },
        not_granted);
  }

  /// Not for long if it gets it: the others in the line are meant to be killed there.
  void wait_in_line() {
    LockOptions options;
    options.ttl = milliseconds{dice_.between(40, longest_ttl.count())};
    options.wait = std::chrono::minutes{1};
    const Event invoke = invoke_acquire(awaited_lock, Kind::exclusive, options);
    attempt(
        [&] {
          auto lock = client_.acquire(awaited_lock, options);
          if (!lock) return end_acquire(invoke, Phase::fail, "busy");
          end_acquire(invoke, *lock);
          release(invoke.grant, *std::move(lock));
        },
        [&](Phase phase, const std::string& reason) { end_acquire(invoke, phase, reason); });
  }

  /// The lease is longer than a failover takes: only then can a holder still trust a lock that the
  /// new primary gives to somebody else.
  void take_and_hold() {
    LockOptions options;
    options.ttl = std::chrono::seconds{10};
    options.wait = milliseconds{dice_.between(1, 2'000)};
    take_alone(workload_.locks[dice_.index(workload_.locks.size())], options);
  }

  /// Where everything is allowed.
  void dispute(const std::string& name) {
    if (dice_.percent(4)) return force_release(name);
    LockOptions options = some_options();
    if (dice_.percent(8)) options.on_conflict = OnConflict::force;
    if (dice_.percent(15)) {
      options.on_conflict = OnConflict::steal_stale;
      options.steal_after = milliseconds{dice_.between(20, 60)};
    }
    if (dice_.percent(70)) {
      take_alone(name, options);
    } else {
      take_shared(name, options);
    }
  }

  void force_release(const std::string& name) {
    Event seen = event(new_grant(), name, Op::force_release, Phase::invoke);
    recorder_->record(seen);
    seen.phase = Phase::ok;
    try {
      client_.force_release(name);
    } catch (const Error&) {
      seen.phase = Phase::unknown;
    }
    seen.time = history_now();
    recorder_->record(seen);
  }

  // What is done with it.

  void use(const std::string& grant, Kind kind, const LockOptions& options, Lock lock) {
    const FencedRegister data{workload_.directory, lock.name(), workload_.guard};
    const auto value = kind == Kind::permit ? std::nullopt : read(data, grant, lock);
    dwell(grant, options, lock);
    const bool trusted = check(grant, lock);
    // Some look whether they may, some do not: the register must stand both.
    if (kind == Kind::exclusive && value && (trusted || dice_.percent(50))) {
      write(data, grant, lock, *value);
      check(grant, lock);
    }
    if (kind == Kind::exclusive && !lock.name().starts_with("plain-") && dice_.percent(40)) {
      downgrade(grant, lock);
      read(data, grant, lock);
      dwell(grant, options, lock);
      check(grant, lock);
    }
    if (!lock.valid()) expect_to_be_told(grant, lock);
    release(grant, std::move(lock));
  }

  /// A handle that is not trusted any more has lost its lock, and says so.
  void expect_to_be_told(const std::string& grant, const Lock& lock) const {
    if (wait_for_stop(lock.lost(), time_to_be_told)) return;
    Event seen = event(grant, lock.name(), Op::watch, Phase::fail);
    seen.reason = to_string(lock.loss_reason());
    recorder_->record(seen);
  }

  void dwell(const std::string& grant, const LockOptions& options, Lock& lock) {
    const auto sleep = [&](int least, int most) {
      std::this_thread::sleep_for(microseconds{dice_.between(least, most)});
    };
    const int ttl = static_cast<int>(options.ttl.count());
    const int chance = dice_.between(1, 100);
    if (workload_.work == Work::hold) {
      if (chance > 10) return sleep(0, 20'000);
      for (int part = dice_.between(30, 70); part > 0 && check(grant, lock); --part) {
        sleep(100'000, 100'000);
      }
      return;
    }
    if (chance <= 75) return sleep(0, 500);
    if (chance <= 96) return sleep(500, 5'000);
    // For longer than the ttl, by many small steps: what the others may do meanwhile depends on how
    // it is kept alive.
    for (int part = 0; part < 8; ++part) {
      sleep(ttl * 50, ttl * 200);
      if (options.heartbeat == Heartbeat::manual && dice_.percent(60)) extend(grant, lock);
      check(grant, lock);
    }
  }

  void extend(const std::string& grant, Lock& lock) {
    recorder_->record(event(grant, lock.name(), Op::extend, Phase::invoke));
    record_ownership(grant, Op::extend, lock, lock.extend());
  }

  void downgrade(const std::string& grant, Lock& lock) {
    recorder_->record(event(grant, lock.name(), Op::downgrade, Phase::invoke));
    record_ownership(grant, Op::downgrade, lock, lock.downgrade());
  }

  void record_ownership(const std::string& grant, Op op, const Lock& lock,
                        Ownership ownership) const {
    Event seen = event(grant, lock.name(), op, Phase::unknown);
    if (ownership == Ownership::held) {
      seen.phase = Phase::ok;
      seen.until = trusted_until(lock);
    } else if (ownership == Ownership::lost) {
      seen.phase = Phase::lost;
      seen.reason = to_string(lock.loss_reason());
    }
    recorder_->record(seen);
  }

  std::optional<std::int64_t> read(const FencedRegister& data, const std::string& grant,
                                   const Lock& lock) const {
    const auto value =
        data.read(event(grant, lock.name(), Op::read, Phase::ok), lock.token().value);
    if (!value) record_refusal(grant, Op::read, lock);
    return value;
  }

  void write(const FencedRegister& data, const std::string& grant, const Lock& lock,
             std::int64_t value) const {
    if (!data.write(event(grant, lock.name(), Op::write, Phase::ok), lock.token().value, value,
                    value + 1)) {
      record_refusal(grant, Op::write, lock);
    }
  }

  void record_refusal(const std::string& grant, Op op, const Lock& lock) const {
    Event seen = event(grant, lock.name(), op, Phase::fail);
    seen.token = lock.token().value;
    recorder_->record(seen);
    check(grant, lock);
  }

  void release(const std::string& grant, Lock lock) {
    const std::string name = lock.name();
    recorder_->record(event(grant, name, Op::release, Phase::invoke));
    if (dice_.percent(20)) {
      { const Lock dropped = std::move(lock); }
      return recorder_->record(event(grant, name, Op::release, Phase::unknown));
    }
    const Release release = lock.release();
    Event seen = event(grant, name, Op::release, Phase::unknown);
    if (release == Release::done) seen.phase = Phase::ok;
    if (release == Release::was_lost) {
      seen.phase = Phase::lost;
      seen.reason = to_string(lock.loss_reason());
    }
    recorder_->record(seen);
    check(grant, lock);
  }

  const LockWorkload& workload_;
  LockClient& client_;
  const std::shared_ptr<const Recorder> recorder_;
  const int thread_;
  Dice dice_;
  int grants_ = 0;
};

}  // namespace

std::vector<std::string> locks_of_workload() {
  std::vector<std::string> names;
  for (const auto& [prefix, count] :
       {std::pair{"plain-", plain_locks}, std::pair{"shared-", shared_locks},
        std::pair{"permits-", semaphores}, std::pair{"disputed-", disputed_locks}}) {
    for (int i = 0; i < count; ++i) names.push_back(prefix + std::to_string(i));
  }
  return names;
}

void run(const LockWorkload& workload, const std::stop_token& stop) {
  const auto recorder = std::make_shared<const Recorder>(workload.directory, workload.process);
  std::vector<LockClient> clients;
  for (int i = 0; i < workload.clients; ++i) clients.push_back(make_client(workload));
  Dice seeds{workload.seed};
  std::vector<std::future<void>> threads;
  for (int thread = 0; thread < workload.clients * workload.threads; ++thread) {
    LockClient& client = clients[static_cast<std::size_t>(thread / workload.threads)];
    threads.push_back(std::async(std::launch::async, [&, thread, seed = seeds.seed()] {
      Worker worker{workload, client, recorder, thread, seed};
      while (!stop.stop_requested()) worker.work_once();
    }));
  }
  for (auto& thread : threads) thread.get();
}

}  // namespace leasehold::testing
