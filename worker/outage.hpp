#pragma once

#include <spdlog/logger.h>

#include <optional>
#include <string>

#include "leasehold/errors.hpp"
#include "status.hpp"
#include "support/log_line.hpp"

namespace leasehold::worker {

/// Logs once that something fails, again if the reason changes, and once that it works again,
/// however often it is tried in between. For one thread.
class Outage {
 public:
  /// What is logged.
  struct Events {
    EventName failed;
    EventName still_fails;  ///< each time, on the level debug
    EventName works_again;
  };

  explicit Outage(Events events) : events_(events) {}

  void failed(spdlog::logger& log, const std::exception& error, const Problem& problem);
  void over(spdlog::logger& log);

 private:
  /// What to do about an error. Errors with the same hint have the same reason.
  static std::string hint_for(const std::exception& error);

  const Events events_;
  std::optional<Timestamp> since_;
  std::string hint_;
};

}  // namespace leasehold::worker
