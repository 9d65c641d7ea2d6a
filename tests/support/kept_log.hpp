#pragma once

#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace leasehold::testing {

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

}  // namespace leasehold::testing
