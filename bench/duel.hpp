#pragma once

#include <atomic>
#include <barrier>
#include <chrono>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "options.hpp"
#include "report.hpp"

namespace leasehold::bench {

/// Does something once or several times, and returns how often.
using Step = std::function<std::size_t()>;

/// How much was done, and in what time.
struct Work {
  double operations = 0;
  double seconds = 0;

  double rate() const { return operations / seconds; }
  Work& operator+=(const Work& other);
};

/// Threads that repeat their step for the length of a slice and rest in between.
class Crew {
 public:
  /// One thread for each step. A step is only called by its own thread.
  explicit Crew(std::vector<Step> steps);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// Rethrows the exception of a step.
  Work run(std::chrono::milliseconds slice);

 private:
  void work(const Step& step);

  std::atomic<bool> resting_{true};
  std::atomic<bool> leaving_{false};
  std::atomic<std::size_t> operations_{0};
  std::exception_ptr failure_;  // written by the first thread that sets failed_
  std::atomic<bool> failed_{false};
  std::barrier<> start_;
  std::barrier<> finish_;
  std::vector<std::thread> threads_;
};

struct Duel {
  Work ours;
  Work reference;
  double ratio = 0;  ///< median over the rounds
};

/// Runs both in turns, so that any other load on the machine affects both.
using Slice = std::function<Work(std::chrono::milliseconds)>;
Duel fight(const Options& options, const std::string& name, Progress& progress, const Slice& ours,
           const Slice& reference);

/// Of at least one value.
double median(std::vector<double> values);

}  // namespace leasehold::bench
