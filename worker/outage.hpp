#pragma once

#include <spdlog/logger.h>

#include <optional>
#include <string>

#include "leasehold/errors.hpp"
#include "status.hpp"

namespace leasehold::worker {

/// Logs once that something fails, again if the reason changes, and once that it works again,
/// however often it is tried in between. For one thread.
class Outage {
 public:
  explicit Outage(const char* what) : what_(what) {}

  void failed(spdlog::logger& log, const std::exception& error, const Problem& problem);
  void over(spdlog::logger& log);

 private:
  /// What to do about an error. Errors with the same hint have the same reason.
  static std::string hint_for(const std::exception& error);

  const char* what_;
  std::optional<Timestamp> since_;
  std::string hint_;
};

}  // namespace leasehold::worker
