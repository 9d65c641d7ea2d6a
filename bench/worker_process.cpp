#include "worker_process.hpp"

#include <sstream>
#include <stdexcept>

namespace leasehold::bench {
namespace {

constexpr std::chrono::seconds longest_wait{30};  // hundreds of them start slowly

}  // namespace

WorkerProcess::WorkerProcess(const std::string& uri, std::size_t concurrency, Completed completed)
    : process_({LEASEHOLD_BENCH_TASK_WORKER, uri, std::to_string(concurrency),
                completed == Completed::kept ? "keep" : "delete"}) {
  if (process_.read_line(longest_wait) != "ready") {
    throw std::runtime_error("task_worker: not ready");
  }
}

void WorkerProcess::start() { process_.write_line("start"); }

void WorkerProcess::ask() { process_.write_line("counts"); }

WorkerProcess::Counts WorkerProcess::answer() {
  const auto line = process_.read_line(longest_wait);
  if (!line) throw std::runtime_error("task_worker: no answer");
  std::istringstream text(*line);
  Counts counts;
  text >> counts.lease_calls >> counts.started >> counts.completed >> counts.seconds_to_start;
  if (!text) throw std::runtime_error("task_worker: " + *line);
  return counts;
}

WorkerProcess::Counts& WorkerProcess::Counts::operator+=(const Counts& other) {
  lease_calls += other.lease_calls;
  started += other.started;
  completed += other.completed;
  seconds_to_start += other.seconds_to_start;
  return *this;
}

WorkerProcess::Counts operator-(const WorkerProcess::Counts& a, const WorkerProcess::Counts& b) {
  return {a.lease_calls - b.lease_calls, a.started - b.started, a.completed - b.completed,
          a.seconds_to_start - b.seconds_to_start};
}

}  // namespace leasehold::bench
