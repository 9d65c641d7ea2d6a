#include "display.hpp"

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "text.hpp"

namespace leasehold::cli {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

void Display::title(const Stores& stores) const {
  if (silent_) return;
  std::cout << terminal_.paint(Colour::bold, "leasehold demo") << ": " << options_.workers
            << " worker processes, " << with_commas(options_.tasks) << " tasks, "
            << options_.worker.accounts << " accounts behind locks\n"
            << "locks in " << fit(stores.locks_where(), 60) << "\n"
            << "tasks in " << fit(stores.tasks_where(), 60) << "\n"
            << "Half of the tasks add 1 to an account, the others leave a note. Meanwhile,\n"
            << "workers are killed (SIGKILL) or frozen (SIGSTOP) at random, with seed "
            << options_.seed << ".\n\n"
            << std::flush;
}

void Display::show(const FleetNews& fleet, const RecoveryThread& recovery) {
  if (silent_) return;
  const auto now = steady_clock::now();
  if (terminal_.interactive()) {
    draw(fleet, recovery, now);
  } else if (now >= next_line_) {
    next_line_ = now + 1s;
    std::cout << counters(fleet, recovery, now) << "\n" << std::flush;
  }
}

void Display::end(const FleetNews& fleet, const RecoveryThread& recovery) {
  next_line_ = {};
  show(fleet, recovery);
  if (!silent_) std::cout << "\n";
}

std::string Display::counters(const FleetNews& fleet, const RecoveryThread& recovery,
                              SteadyTime now) const {
  using Number = unsigned long long;
  char line[128];
  std::snprintf(line, sizeof line,
                "%4.1f s  done %5llu  running %2llu  killed %2llu  frozen %2llu  recovered %3llu  "
                "refused %2llu",
                std::chrono::duration<double>(now - began_).count(),
                static_cast<Number>(recovery.completed()), static_cast<Number>(fleet.running),
                static_cast<Number>(fleet.kills), static_cast<Number>(fleet.freezes),
                static_cast<Number>(recovery.recovered()),
                static_cast<Number>(fleet.stale_writes_refused()));
  return line;
}

void Display::draw(const FleetNews& fleet, const RecoveryThread& recovery, SteadyTime now) {
  const double share =
      static_cast<double>(recovery.completed()) / static_cast<double>(options_.tasks);
  const std::string numbers =
      with_commas(recovery.completed()) + " of " + with_commas(options_.tasks);
  // No line may be wrapped, or the next drawing would not go up far enough.
  const std::size_t columns = terminal_.columns() - 1;
  const std::size_t around = numbers.size() + 4;
  const std::size_t room = columns - std::min(columns, around);
  std::string out = drawn_ ? "\x1b[3A" : "";  // three lines up
  out += "\r " + terminal_.paint(Colour::green, bar(share, std::min<std::size_t>(50, room))) + " " +
         numbers + "\x1b[K\n";
  out += "\r" + fit(counters(fleet, recovery, now), columns) + "\x1b[K\n";
  out += "\r " + terminal_.paint(Colour::red, fit(fleet.last, columns - 1)) + "\x1b[K\n";
  drawn_ = true;
  std::cout << out << std::flush;
}

}  // namespace leasehold::cli
