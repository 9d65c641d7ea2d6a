// A worker with handlers for three types of tasks, retries, progress, an effect that is committed
// with its task, and a graceful stop by signal.
//
//   worker_example postgresql://localhost/app
//
// Enqueues a few tasks, works on them, and stops when they are done or at SIGTERM. A second SIGTERM
// ends the grace period.
#include <pthread.h>

#include <csignal>
#include <iostream>
#include <leasehold/postgres.hpp>
#include <leasehold/tasks.hpp>
#include <pqxx/pqxx>
#include <stop_token>
#include <thread>

using namespace std::chrono_literals;

namespace {

void render(leasehold::Task& task) {
  for (int frame = 0; frame < 4; ++frame) {
    // The lease is lost, the task is cancelled or too slow, or the worker stops: from now on
    // nothing that we do counts.
    if (task.stop_token().stop_requested()) return;
    task.progress(R"({"frame":)" + std::to_string(frame) + "}");
  }
  if (task.attempt() == 1) throw std::runtime_error("the disk was full");  // tried again
  task.set_result(R"({"frames":4})");
}

/// Commits the payment and the completion of its task together, or neither.
void pay_out(const std::string& uri, leasehold::Task& task) {
  pqxx::connection connection{uri};
  pqxx::work transaction{connection};
  transaction.exec("UPDATE accounts SET balance = balance + 100 WHERE id = 1");
  leasehold::complete_in(transaction, task);  // throws LeaseLost if it came too late
  transaction.commit();
}

/// Stops the worker at SIGTERM or SIGINT, and ends its grace period at a second one. Make one
/// before any other thread is started: threads inherit what is blocked.
class StopBySignal {
 public:
  StopBySignal() {
    sigemptyset(&signals_);
    for (const int signal : {SIGTERM, SIGINT}) sigaddset(&signals_, signal);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  }

  void watch(leasehold::Worker& worker, std::stop_source stop) {
    thread_ = std::jthread([this, &worker, stop](const std::stop_token& end) mutable {
      const timespec pause{0, 100'000'000};
      while (!end.stop_requested()) {
        if (sigtimedwait(&signals_, nullptr, &pause) < 0) continue;
        if (stop.stop_requested()) worker.stop_now();
        stop.request_stop();
      }
    });
  }

 private:
  sigset_t signals_{};
  std::jthread thread_;
};

int run(const std::string& uri) {
  StopBySignal signals;
  leasehold::migrate(uri);
  pqxx::connection connection{uri};
  pqxx::nontransaction{connection}.exec(
      "CREATE TABLE accounts (id bigint, balance bigint); INSERT INTO accounts VALUES (1, 0)");
  leasehold::TaskQueue tasks{uri};

  leasehold::Worker worker{tasks, {.concurrency = 8, .lease = 30s, .stop_grace = 10s}};
  worker.on("video", render,
            {.limit = 2, .deadline = 10min, .retry = leasehold::Retry::after(0ms)});
  worker.on("payout", [&](leasehold::Task& task) { pay_out(uri, task); });
  worker.on("nonsense", [](leasehold::Task&) { throw leasehold::DeadLetter("no such customer"); });

  for (int i = 0; i < 3; ++i) tasks.enqueue({.type = "video"});
  for (int i = 0; i < 5; ++i) tasks.enqueue({.type = "payout"});
  tasks.enqueue({.type = "nonsense"});

  std::stop_source stop;
  signals.watch(worker, stop);
  std::jthread until_done([&](const std::stop_token& end) {
    while (!end.stop_requested() && worker.stats().completed + worker.stats().dead < 9) {
      std::this_thread::sleep_for(10ms);
    }
    stop.request_stop();
  });
  worker.run(stop.get_token());

  for (const auto& count : tasks.counts()) {
    std::cout << count.number << " " << count.type << " " << to_string(count.state) << "\n";
  }
  const auto balance =
      pqxx::nontransaction{connection}.exec("SELECT balance FROM accounts")[0][0].as<int>();
  std::cout << "paid " << balance << "\n";
  return balance == 500 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: worker_example postgresql://host/database\n";
    return 2;
  }
  try {
    return run(argv[1]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
