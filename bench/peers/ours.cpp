// Our side of the comparison with peers: the roles of drivers/common.js, played by Leasehold.
//
//   peer_ours ROLE OPTIONS     OPTIONS is JSON
#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <iostream>
#include <leasehold/locks.hpp>
#include <leasehold/migrate.hpp>
#include <leasehold/tasks.hpp>
#include <leasehold/version.hpp>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <thread>

#include "harness/resp_client.hpp"
#include "raw_redis.hpp"

namespace {

using leasehold::NewTask;
using leasehold::Task;
using leasehold::TaskQueue;
using leasehold::TaskQueueOptions;
using leasehold::Worker;
using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t chunk = 10'000;  // of tasks in one call, as the peers get them
constexpr std::size_t worker_threads = 8;
const std::string type = "bench";

double now() {
  return std::chrono::duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

void say(const json& object) {
  static std::mutex mutex;
  const std::lock_guard guard(mutex);
  std::cout << object.dump() << std::endl;
}

void next_line() {
  std::string line;
  std::getline(std::cin, line);
}

steady_clock::time_point end_after(const json& options) {
  return steady_clock::now() +
         milliseconds{std::llround(options.at("seconds").get<double>() * 1000)};
}

TaskQueue open_queue(const json& options, std::size_t connections = 4) {
  TaskQueueOptions queue;
  queue.postgres.connections = connections;
  queue.retention = leasehold::Retention::delete_at_once();
  return TaskQueue{options.at("uri").get<std::string>(), queue};
}

void fill(const json& options) {
  leasehold::migrate(options.at("uri").get<std::string>());
  TaskQueue queue = open_queue(options);
  const auto count = options.at("count").get<std::size_t>();
  const double begun = now();
  std::vector<NewTask> tasks;
  for (std::size_t n = 0; n < count; n += tasks.size()) {
    tasks.resize(std::min(chunk, count - n));
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      tasks[i].type = type;
      tasks[i].payload = R"({"n":)" + std::to_string(n + i) + "}";
    }
    queue.enqueue(tasks);
  }
  say({{"count", count}, {"seconds", (now() - begun) / 1000}});
}

/// Says how many tasks are done since it was made, whenever the number has changed.
class Meter {
 public:
  explicit Meter(std::function<std::uint64_t()> done)
      : done_(std::move(done)), thread_([this](const std::stop_token& stop) { watch(stop); }) {}

 private:
  void watch(const std::stop_token& stop) {
    std::uint64_t said = 0;
    while (!stop.stop_requested()) {
      std::this_thread::sleep_for(milliseconds{5});
      if (const auto done = done_(); done != said) {
        said = done;
        say({{"done", done}, {"first", first_}, {"last", now()}});
      }
    }
  }

  std::function<std::uint64_t()> done_;
  const double first_ = now();
  std::jthread thread_;
};

/// Threads that lease one task and complete it.
void drain_one_by_one(const json& options) {
  const auto concurrency = options.at("concurrency").get<std::size_t>();
  TaskQueue queue = open_queue(options);
  std::atomic<std::uint64_t> done{0};
  Meter meter([&] { return done.load(); });
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < concurrency; ++i) {
    threads.emplace_back([&](const std::stop_token& stop) {
      const leasehold::LeaseRequest request{.types = {type}};
      while (!stop.stop_requested()) {
        auto leases = queue.lease(request);
        if (leases.empty()) return;
        leases.front().complete();
        ++done;
      }
    });
  }
  next_line();
}

void drain_batched(const json& options) {
  TaskQueue queue = open_queue(options);
  Worker worker{queue, {.concurrency = worker_threads}};
  Meter meter([&] { return worker.stats().completed; });
  worker.on(type, [](Task&) {});
  std::jthread running([&](const std::stop_token& stop) { worker.run(stop); });
  next_line();
}

void drain(const json& options) {
  say({{"ready", true}});
  next_line();
  if (options.at("mode") == "one_by_one") {
    drain_one_by_one(options);
  } else {
    drain_batched(options);
  }
}

void latency(const json& options) {
  leasehold::migrate(options.at("uri").get<std::string>());
  TaskQueue queue = open_queue(options);
  std::mutex mutex;
  std::vector<double> waits;
  Worker worker{queue, {.concurrency = worker_threads}};
  worker.on(type, [&](Task& task) {
    const double wait = now() - json::parse(task.payload()).at("sent").get<double>();
    const std::lock_guard guard(mutex);
    waits.push_back(wait);
  });
  std::jthread running([&](const std::stop_token& stop) { worker.run(stop); });
  const auto send = [&] { queue.enqueue({.type = type, .payload = json{{"sent", now()}}.dump()}); };
  const auto all_started = [&](std::size_t sent) {
    for (const auto end = steady_clock::now() + std::chrono::seconds{30};
         steady_clock::now() < end;) {
      {
        const std::lock_guard guard(mutex);
        if (waits.size() >= sent) return;
      }
      std::this_thread::sleep_for(milliseconds{10});
    }
    throw std::runtime_error("not all tasks were started");
  };
  constexpr std::size_t warm_up = 10;
  for (std::size_t i = 0; i < warm_up; ++i) {
    send();
    std::this_thread::sleep_for(milliseconds{50});
  }
  all_started(warm_up);
  std::minstd_rand random{std::random_device{}()};
  std::uniform_real_distribution<double> pause{0, 40};
  std::size_t sent = warm_up;
  for (const auto end = end_after(options); steady_clock::now() < end; ++sent) {
    send();
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>{pause(random)});
  }
  all_started(sent);
  const std::lock_guard guard(mutex);
  waits.erase(waits.begin(), waits.begin() + warm_up);
  say({{"waits", waits}});
}

/// A worker whose handlers never end, and a recovery beside it as leaseholdd would be.
void hold(const json& options) {
  const milliseconds lease{options.at("lease_ms").get<long>()};
  TaskQueue queue = open_queue(options);
  Worker worker{queue,
                {.concurrency = options.at("concurrency").get<std::size_t>(),
                 .lease = lease,
                 .stop_grace = milliseconds{0}}};
  worker.on(type, [](Task& task) {
    say({{"started", now()}});
    while (!task.stop_token().stop_requested()) std::this_thread::sleep_for(milliseconds{10});
  });
  std::jthread running([&](const std::stop_token& stop) { worker.run(stop); });
  std::jthread recovering([&](const std::stop_token& stop) {
    leasehold::Recovery recovery{queue};
    while (!stop.stop_requested()) {
      recovery.run_once();
      std::this_thread::sleep_for(std::chrono::seconds{1});
    }
  });
  say({{"ready", true}});
  next_line();
}

void pairs(const json& options) {
  leasehold::LockClient client{options.at("uri").get<std::string>()};
  const auto concurrency = options.at("concurrency").get<std::size_t>();
  const auto round = [&](steady_clock::time_point end) {
    std::atomic<std::uint64_t> sum{0};
    {
      std::vector<std::jthread> threads;
      for (std::size_t id = 0; id < concurrency; ++id) {
        threads.emplace_back([&, id] {
          std::vector<std::string> names;
          for (int i = 0; i < 16; ++i) {
            names.push_back("bench:" + std::to_string(id) + ":" + std::to_string(i));
          }
          std::uint64_t done = 0;
          while (steady_clock::now() < end) {
            auto lock = client.acquire(names[done % names.size()]);
            if (!lock || lock->release() != leasehold::Release::done) {
              throw std::runtime_error("a lock was not given or not released");
            }
            ++done;
          }
          sum += done;
        });
      }
    }
    return sum.load();
  };
  round(steady_clock::now() + milliseconds{500});  // to warm up
  const double begun = now();
  const auto done = round(end_after(options));
  say({{"pairs", done}, {"seconds", (now() - begun) / 1000}});
}

void contend(const json& options) {
  const std::string uri = options.at("uri");
  const auto address = leasehold::harness::RedisAddress::parse(uri);
  leasehold::LockClient client{uri};
  client.status("bench:hot");  // connects
  say({{"ready", true}});
  next_line();
  const auto end = end_after(options);
  const int first = options.at("first");
  std::mutex mutex;
  auto turns = json::array();
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < options.at("contenders").get<int>(); ++i) {
      threads.emplace_back([&, contender = first + i] {
        leasehold::bench::RawRedisLock raw(address.host, address.port);
        auto own = json::array();
        while (steady_clock::now() < end) {
          const double asked = now();
          auto lock = client.acquire("bench:hot", {.ttl = std::chrono::seconds{10},
                                                   .wait = leasehold::LockOptions::forever});
          own.push_back({asked, now(), contender});
          raw.read_and_write_next("bench:counter");
          lock->release();
        }
        const std::lock_guard guard(mutex);
        turns.insert(turns.end(), own.begin(), own.end());
      });
    }
  }
  say({{"turns", turns}});
}

void version(const json&) { say({{"version", leasehold::version()}}); }

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, void (*)(const json&)> roles{
      {"contend", contend}, {"drain", drain}, {"fill", fill},      {"hold", hold},
      {"latency", latency}, {"pairs", pairs}, {"version", version}};
  try {
    const auto role = argc == 3 ? roles.find(argv[1]) : roles.end();
    if (role == roles.end()) {
      std::cerr << "usage: peer_ours ROLE OPTIONS\n";
      return 2;
    }
    role->second(json::parse(argv[2]));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "peer_ours " << argv[1] << ": " << error.what() << "\n";
    return 1;
  }
}
