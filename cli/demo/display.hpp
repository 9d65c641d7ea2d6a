#pragma once

#include <chrono>
#include <string>

#include "demo_options.hpp"
#include "fleet.hpp"
#include "recovery_thread.hpp"
#include "session.hpp"

namespace leasehold::cli {

/// Shows the progress of the demo: redrawn in place on a terminal, elsewhere one line a second.
class Display {
 public:
  Display(const Session& session, const DemoOptions& options)
      : terminal_(session.terminal), silent_(session.json), options_(options) {}

  void title(const Stores& stores) const;
  void show(const FleetNews& fleet, const RecoveryThread& recovery);
  /// Shows the last state, and leaves it there.
  void end(const FleetNews& fleet, const RecoveryThread& recovery);

 private:
  using SteadyTime = std::chrono::steady_clock::time_point;

  std::string counters(const FleetNews& fleet, const RecoveryThread& recovery,
                       SteadyTime now) const;
  void draw(const FleetNews& fleet, const RecoveryThread& recovery, SteadyTime now);

  const Terminal terminal_;
  const bool silent_;
  const DemoOptions& options_;
  const SteadyTime began_ = std::chrono::steady_clock::now();
  SteadyTime next_line_;
  bool drawn_ = false;
};

}  // namespace leasehold::cli
