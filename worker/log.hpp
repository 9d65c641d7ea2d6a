#pragma once

#include <spdlog/formatter.h>
#include <spdlog/logger.h>

#include <memory>
#include <string>

#include "config.hpp"

namespace leasehold::worker {

/// One event a line: when, how grave, what, and then key=value. Everybody writes it as text, the
/// library too; as JSON the pairs are members of the object. The name of a logger is the queue that
/// it speaks of.
class LineFormatter final : public spdlog::formatter {
 public:
  explicit LineFormatter(LogFormat format) : format_(format) {}

  void format(const spdlog::details::log_msg& event, spdlog::memory_buf_t& line) override;
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<LineFormatter>(format_);
  }

 private:
  LogFormat format_;
};

/// Where everything is logged: stderr. Thread-safe.
class Log {
 public:
  Log(LogFormat format, spdlog::level::level_enum level);

  spdlog::logger& operator*() const { return *logger_; }
  spdlog::logger* operator->() const { return logger_.get(); }

  /// For what concerns one queue.
  std::shared_ptr<spdlog::logger> for_queue(const std::string& name) const;

  /// For those loggers too that were handed out.
  void change(LogFormat format, spdlog::level::level_enum level);

 private:
  std::shared_ptr<spdlog::sinks::sink> sink_;
  std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace leasehold::worker
