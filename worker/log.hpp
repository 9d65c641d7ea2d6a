#pragma once

#include <spdlog/formatter.h>
#include <spdlog/logger.h>

#include <memory>
#include <string>

#include "common/config.hpp"

namespace leasehold::worker {

/// One event a line: time, level, message, and then key=value pairs. Everything arrives as text in
/// the form of support/log_line.hpp, also from the library. That form can be read back without
/// loss, so that in JSON the pairs become members of the object. The name of a logger is the queue
/// that its events are about.
class LineFormatter final : public spdlog::formatter {
 public:
  explicit LineFormatter(common::LogFormat format) : format_(format) {}

  void format(const spdlog::details::log_msg& event, spdlog::memory_buf_t& line) override;
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<LineFormatter>(format_);
  }

 private:
  common::LogFormat format_;
};

/// Logs to stderr. Thread-safe.
class Log {
 public:
  Log(common::LogFormat format, spdlog::level::level_enum level);

  spdlog::logger& operator*() const { return *logger_; }
  spdlog::logger* operator->() const { return logger_.get(); }

  /// A logger for the events of one queue.
  std::shared_ptr<spdlog::logger> for_queue(const std::string& name) const;

  /// Also changes the loggers that for_queue() has returned.
  void change(common::LogFormat format, spdlog::level::level_enum level);

 private:
  std::shared_ptr<spdlog::sinks::sink> sink_;
  std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace leasehold::worker
