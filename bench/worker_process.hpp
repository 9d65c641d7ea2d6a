#pragma once

#include <string>

#include "harness/process.hpp"

namespace leasehold::bench {

/// A process that runs task_worker.cpp. For one thread at a time.
class WorkerProcess {
 public:
  enum class Completed { kept, deleted };

  /// Returns when the process is ready. It leases nothing before start(). A concurrency of 0 is
  /// the default of WorkerOptions.
  WorkerProcess(const std::string& uri, std::size_t concurrency, Completed completed);

  void start();

  /// What the worker has done since it was started.
  struct Counts {
    double lease_calls = 0;
    double started = 0;
    double completed = 0;
    double seconds_to_start = 0;  ///< of all tasks together

    Counts& operator+=(const Counts& other);
    friend Counts operator-(const Counts& a, const Counts& b);
  };
  /// In two steps, so that many processes can be asked at the same time.
  void ask();
  Counts answer();

  /// Asks the worker to stop. The destructor kills a process that has not ended.
  void stop() { process_.close_input(); }
  void wait() { process_.wait(std::chrono::seconds{20}); }

  pid_t pid() const { return process_.pid(); }

 private:
  harness::Process process_;
};

}  // namespace leasehold::bench
