#pragma once

#include <spdlog/logger.h>

#include <optional>
#include <string>

#include "leasehold/errors.hpp"
#include "status.hpp"

namespace leasehold::worker {

/// Says once that something fails, once more if the reason changes, and once that it works again;
/// however often it is tried in between. For one thread.
class Outage {
 public:
  explicit Outage(const char* what) : what_(what) {}

  void failed(spdlog::logger& log, const std::exception& error, const Problem& problem);
  void over(spdlog::logger& log);

 private:
  /// What there is to do about it, and what two errors have in common that mean the same.
  static std::string hint_for(const std::exception& error);

  const char* what_;
  std::optional<Timestamp> since_;
  std::string hint_;
};

}  // namespace leasehold::worker
