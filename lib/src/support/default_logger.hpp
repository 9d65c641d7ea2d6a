#pragma once

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <memory>

namespace leasehold::inline v0 {

/// The logger of clients that were given none: warnings and errors go to stderr.
inline std::shared_ptr<spdlog::logger> default_logger() {
  static const auto logger = [] {
    auto made = std::make_shared<spdlog::logger>("leasehold",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_level(spdlog::level::warn);
    return made;
  }();
  return logger;
}

}  // namespace leasehold::inline v0
