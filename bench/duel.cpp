#include "duel.hpp"

#include <algorithm>

namespace leasehold::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values.at(middle)
                                : (values.at(middle - 1) + values.at(middle)) / 2;
}

Work& Work::operator+=(const Work& other) {
  operations += other.operations;
  seconds += other.seconds;
  return *this;
}

Crew::Crew(std::vector<Step> steps)
    : start_(static_cast<std::ptrdiff_t>(steps.size()) + 1),
      finish_(static_cast<std::ptrdiff_t>(steps.size()) + 1) {
  for (auto& step : steps) {
    threads_.emplace_back([this, step = std::move(step)] { work(step); });
  }
}

Crew::~Crew() {
  leaving_ = true;
  start_.arrive_and_wait();
  for (auto& thread : threads_) thread.join();
}

Work Crew::run(milliseconds slice) {
  resting_ = false;
  operations_ = 0;
  const auto started = steady_clock::now();
  start_.arrive_and_wait();
  std::this_thread::sleep_for(slice);
  resting_ = true;
  finish_.arrive_and_wait();
  const std::chrono::duration<double> taken = steady_clock::now() - started;
  if (failed_) std::rethrow_exception(failure_);
  return {static_cast<double>(operations_), taken.count()};
}

void Crew::work(const Step& step) {
  for (;;) {
    start_.arrive_and_wait();
    if (leaving_) return;
    std::size_t done = 0;
    try {
      while (!resting_.load(std::memory_order_relaxed)) done += step();
    } catch (...) {
      if (!failed_.exchange(true)) failure_ = std::current_exception();
    }
    operations_ += done;
    finish_.arrive_and_wait();
  }
}

Duel fight(const Options& options, const std::string& name, Progress& progress, const Slice& ours,
           const Slice& reference) {
  Duel duel;
  std::vector<double> ratios;
  for (int round = 0; round < Options::warm_up_rounds; ++round) {
    progress.show(name + ": warming up");
    ours(options.slice);
    reference(options.slice);
  }
  for (int round = 0; round < options.rounds(); ++round) {
    progress.show(name + ": round " + std::to_string(round + 1) + " of " +
                  std::to_string(options.rounds()));
    const Work mine = ours(options.slice);
    const Work theirs = reference(options.slice);
    duel.ours += mine;
    duel.reference += theirs;
    ratios.push_back(mine.rate() / theirs.rate());
  }
  duel.ratio = median(std::move(ratios));
  return duel;
}

}  // namespace leasehold::bench
