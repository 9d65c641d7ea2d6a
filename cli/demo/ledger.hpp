#pragma once

#include <cstdint>
#include <string>

#include "book.hpp"
#include "demo_options.hpp"
#include "fleet.hpp"
#include "session.hpp"

namespace leasehold::cli {

/// The result of the demo, and whether the promises were kept.
struct Ledger {
  FleetNews fleet;
  std::uint64_t tasks = 0;
  std::uint64_t completed = 0;
  std::uint64_t recovered = 0;
  Totals book;
  double seconds = 0;
  std::string last_error;  ///< of recovery

  std::uint64_t lost() const;
  std::uint64_t doubled() const { return book.effects - book.tasks_with_effect; }
  /// Each booking adds 1 to a balance that was read before. Missing amounts were overwritten by
  /// another holder of the same lock.
  std::uint64_t lock_violations() const;
  bool exactly_once() const { return lost() == 0 && doubled() == 0 && book.effects == tasks; }
  bool as_promised() const;

  /// As JSON or for people.
  void print(const Session& session, const DemoOptions& options) const;
};

}  // namespace leasehold::cli
