#include "demo_worker.hpp"

#include <spdlog/logger.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "book.hpp"
#include "common/signals.hpp"
#include "leasehold/errors.hpp"
#include "leasehold/lock_client.hpp"
#include "leasehold/worker.hpp"
#include "support/random.hpp"
#include "support/sleep.hpp"

namespace leasehold::cli {
namespace {

using namespace std::chrono_literals;

void tell(WorkerNews news) {
  const char letter = static_cast<char>(news);
  [[maybe_unused]] const auto written = ::write(STDOUT_FILENO, &letter, 1);
}

/// Carries out tasks: writes their effects into the book.
class Clerk {
 public:
  Clerk(LockClient& locks, Book& book, const DemoWorkerOptions& options)
      : locks_(locks), book_(book), options_(options) {}

  /// Adds 1 to the account of the task, under the account's lock.
  void book(Task& task) {
    handle([&] {
      const std::int64_t account = task.id().value / 2 % options_.accounts;
      auto lock = locks_.acquire(Book::resource(account), {.ttl = demo_lock_ttl, .wait = 250ms});
      // Perhaps its holder was killed: do something else until the lock expires.
      if (!lock) throw RetryLater(250ms);
      const std::int64_t balance = book_.balance(account, lock->token());
      work();
      book_.book(task, {account, balance + 1, lock->token()});
    });
  }

  void note(TaskLease& lease) {
    handle([&] {
      work();
      book_.note(lease);
    });
  }

 private:
  template <typename Entry>
  static void handle(const Entry& make_entry) {
    tell(WorkerNews::started);
    try {
      make_entry();
      tell(WorkerNews::done);
    } catch (const LeaseLost&) {
      tell(WorkerNews::lease_lost);
      throw;
    } catch (const StaleToken&) {
      tell(WorkerNews::stale_token);
      throw;
    } catch (...) {
      tell(WorkerNews::failed);
      throw;
    }
  }

  /// Takes half to one and a half times the average. Ignores stop_token() and lost() on purpose: a
  /// worker that comes back too late must try to write anyway, and be refused.
  void work() const { std::this_thread::sleep_for(options_.work * (0.5 + random_share())); }

  LockClient& locks_;
  Book& book_;
  const DemoWorkerOptions& options_;
};

/// Does what a Worker does in its simplest form: without renewals, so that it does not notice a
/// lost lease either.
void lease_notes(TaskQueue& queue, Clerk& clerk, std::size_t at_once, const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    try {
      auto leases = queue.lease({.types = {note_type}, .limit = at_once, .duration = demo_lease});
      if (leases.empty()) sleep_for(100ms, stop);
      for (TaskLease& lease : leases) clerk.note(lease);
    } catch (const std::exception&) {  // refused, or the store is busy; others come next
      sleep_for(20ms, stop);
    }
  }
}

}  // namespace

ExitCode run_demo_worker(const Stores& stores, const DemoWorkerOptions& options) {
  const common::Signals signals;
  LockClient locks = stores.locks(NewFile::created);
  const auto silence = std::make_shared<spdlog::logger>("demo");
  TaskQueue queue{stores.task_uri(),
                  {.retention = Retention::keep_forever(),
                   .backoff = {.first = 20ms, .longest = 200ms},
                   .logger = silence}};
  const auto book = Book::open(stores.task_uri(), queue);
  Clerk clerk(locks, *book, options);
  Worker worker{queue, {.concurrency = options.concurrency, .lease = demo_lease, .stop_grace = 1s}};
  worker.on(booking_type, [&](Task& task) { clerk.book(task); });
  std::vector<std::jthread> threads;
  threads.emplace_back([&](const std::stop_token& stop) { worker.run(stop); });
  // So few that they end long before their lease does.
  const std::size_t at_once = options.work < demo_lease / 20 ? 2 : 1;
  for (std::size_t i = 0; i < options.concurrency; ++i) {
    threads.emplace_back(
        [&, at_once](const std::stop_token& stop) { lease_notes(queue, clerk, at_once, stop); });
  }
  signals.wait();
  return ExitCode::done;
}

}  // namespace leasehold::cli
