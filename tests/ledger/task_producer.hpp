#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <leasehold/tasks.hpp>
#include <memory>
#include <pqxx/connection>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace leasehold::testing {

/// Adds tasks for the ledger on a thread of its own, whatever happens to the server. Each number
/// becomes one task: an enqueue whose outcome is unknown is repeated with the same unique keys.
class TaskProducer {
 public:
  struct Options {
    std::string uri;
    std::uint64_t seed = 0;
    std::int64_t backlog = 0;  ///< waits while so many tasks are pending or leased
    /// Asked before each batch, on the producer's thread: whether more tasks are wanted after so
    /// many.
    std::function<bool(std::int64_t added)> more;
  };
  explicit TaskProducer(Options options);

  std::int64_t added() const { return added_; }
  bool done() const { return done_; }
  /// Enqueues that had to be repeated because their outcome was unknown.
  int repeated() const { return repeated_; }

 private:
  void run(const std::stop_token& stop);
  bool add(std::vector<NewTask> batch, const std::stop_token& stop);
  void add_missing(std::vector<NewTask>& batch);
  pqxx::connection& connection();

  const Options options_;
  std::mt19937_64 random_;
  TaskQueue queue_;
  std::unique_ptr<pqxx::connection> connection_;
  std::atomic<std::int64_t> added_{0};
  std::atomic<int> repeated_{0};
  std::atomic<bool> done_{false};
  std::jthread thread_;  // last: it uses everything above
};

}  // namespace leasehold::testing
