#pragma once

#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "every_store_fixture.hpp"

namespace leasehold {

/// One thread waits for what another one says. Says no more than true.
class Signal {
 public:
  void set() {
    const std::lock_guard guard(mutex_);
    set_ = true;
    changed_.notify_all();
  }
  [[nodiscard]] bool wait(std::chrono::milliseconds timeout = 60s) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [&] { return set_; });
  }
  bool is_set() {
    const std::lock_guard guard(mutex_);
    return set_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

/// Waits for a stop token to fire.
inline bool wait_for_stop(const std::stop_token& token, std::chrono::milliseconds timeout = 60s) {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::unique_lock lock(mutex);
  changed.wait_for(lock, token, timeout, [] { return false; });
  return token.stop_requested();
}

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
  [[nodiscard]] bool ended(std::chrono::milliseconds timeout = 60s) { return ended_.wait(timeout); }
  bool has_ended() { return ended_.is_set(); }

 private:
  Worker& worker_;
  Signal ended_;
  std::jthread thread_;
};

/// Keeps the lines that were logged.
class KeptLog : public spdlog::sinks::base_sink<std::mutex> {
 public:
  static std::pair<std::shared_ptr<spdlog::logger>, std::shared_ptr<KeptLog>> make() {
    auto log = std::make_shared<KeptLog>();
    return {std::make_shared<spdlog::logger>("test", log), log};
  }
  int count(const std::string& part) {
    const std::lock_guard guard(mutex_);
    return int(std::count_if(lines_.begin(), lines_.end(), [&](const std::string& line) {
      return line.find(part) != std::string::npos;
    }));
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    lines_.emplace_back(message.payload.data(), message.payload.size());
  }
  void flush_() override {}

 private:
  std::vector<std::string> lines_;
};

}  // namespace leasehold
