#pragma once

#include <spdlog/logger.h>

#include <initializer_list>
#include <new>

#include "support/log_line.hpp"

namespace leasehold::inline v0 {

/// Logs an event, if the logger wants events of this level.
inline void log_event(spdlog::logger& logger, spdlog::level::level_enum level, EventName event,
                      std::initializer_list<LogField> fields = {}) {
  if (!logger.should_log(level)) return;
  // A logger does not format a text that comes without arguments.
  try {
    logger.log(level, log_line(event, fields));
  } catch (const std::bad_alloc&) {  // callers may be destructors
    logger.log(level, spdlog::string_view_t(event.text().data(), event.text().size()));
  }
}

inline void log_debug(spdlog::logger& logger, EventName event,
                      std::initializer_list<LogField> fields = {}) {
  log_event(logger, spdlog::level::debug, event, fields);
}
inline void log_info(spdlog::logger& logger, EventName event,
                     std::initializer_list<LogField> fields = {}) {
  log_event(logger, spdlog::level::info, event, fields);
}
inline void log_warn(spdlog::logger& logger, EventName event,
                     std::initializer_list<LogField> fields = {}) {
  log_event(logger, spdlog::level::warn, event, fields);
}
inline void log_error(spdlog::logger& logger, EventName event,
                      std::initializer_list<LogField> fields = {}) {
  log_event(logger, spdlog::level::err, event, fields);
}

}  // namespace leasehold::inline v0
