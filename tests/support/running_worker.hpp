#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <leasehold/tasks.hpp>
#include <stop_token>
#include <thread>

#include "tests/support/signal.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {

/// A worker on a thread of its own; stopped at the latest by the destructor.
class RunningWorker {
 public:
  explicit RunningWorker(Worker& worker) : worker_(worker) {
    thread_ = std::jthread([this](const std::stop_token& stop) {
      try {
        worker_.run(stop);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
      ended_.set();
    });
  }
  ~RunningWorker() {
    thread_.request_stop();
    worker_.stop_now();
  }

  void stop() { thread_.request_stop(); }
  [[nodiscard]] bool ended(std::chrono::milliseconds timeout = long_patience) {
    return ended_.wait(timeout);
  }
  bool has_ended() { return ended_.is_set(); }

 private:
  Worker& worker_;
  Signal ended_;
  std::jthread thread_;
};

}  // namespace leasehold::testing
