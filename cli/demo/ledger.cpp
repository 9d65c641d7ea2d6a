#include "ledger.hpp"

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "text.hpp"

namespace leasehold::cli {
namespace {

nlohmann::ordered_json as_json(const Ledger& ledger, const DemoOptions& options) {
  return {{"on", options.on_servers ? "servers" : "sqlite"},
          {"seed", options.seed},
          {"workers", options.workers},
          {"seconds", ledger.seconds},
          {"tasks", ledger.tasks},
          {"executions", ledger.fleet.executions},
          {"kills", ledger.fleet.kills},
          {"freezes", ledger.fleet.freezes},
          {"leases_recovered", ledger.recovered},
          {"stale_writes_refused", ledger.fleet.stale_writes_refused()},
          {"refused_by_version", ledger.fleet.refused_by_version},
          {"refused_by_token", ledger.fleet.refused_by_token},
          {"effects", ledger.book.effects},
          {"exactly_once", ledger.exactly_once()},
          {"doubled", ledger.doubled()},
          {"lost", ledger.lost()},
          {"lock_violations", ledger.lock_violations()},
          {"ended_by_themselves", ledger.fleet.unexpected_ends},
          {"as_promised", ledger.as_promised()}};
}

/// Prints the ledger line by line, for people.
class Lines {
 public:
  explicit Lines(const Terminal& terminal) : terminal_(terminal) {}

  void title(const char* text) const { std::cout << terminal_.paint(Colour::bold, text) << "\n"; }
  void add(const char* name, std::uint64_t number, const std::string& note,
           Colour colour = Colour::plain) const {
    char start[64];
    std::snprintf(start, sizeof start, "  %-22s %8s", name, with_commas(number).c_str());
    std::cout << terminal_.paint(colour, start)
              << (note.empty() ? "" : "  " + terminal_.paint(Colour::dim, note)) << "\n";
  }
  /// In green or red.
  void judge(const char* name, std::uint64_t number, const std::string& note, bool good) const {
    add(name, number, note, good ? Colour::green : Colour::red);
  }

 private:
  const Terminal& terminal_;
};

}  // namespace

std::uint64_t Ledger::lost() const { return tasks - std::min(tasks, book.tasks_with_effect); }

std::uint64_t Ledger::lock_violations() const {
  const auto bookings = static_cast<std::int64_t>(book.bookings);
  return book.tokens_not_growing +
         static_cast<std::uint64_t>(std::abs(bookings - book.sum_of_balances));
}

bool Ledger::as_promised() const {
  return exactly_once() && lock_violations() == 0 && completed == tasks &&
         fleet.unexpected_ends == 0;
}

void Ledger::print(const Session& session, const DemoOptions& options) const {
  if (session.json) return Session::print(as_json(*this, options));
  const Lines lines(session.terminal);
  lines.title("The ledger");
  lines.add("tasks", tasks, "added before the first worker started");
  lines.add("executions", fleet.executions, "handlers started, the killed ones included");
  lines.add("kills", fleet.kills, "processes ended by SIGKILL");
  lines.add("freezes", fleet.freezes, "processes stopped past the end of a lease");
  lines.add("leases recovered", recovered, "taken back from killed and frozen workers");
  lines.add("stale writes refused", fleet.stale_writes_refused(),
            with_commas(fleet.refused_by_version) + " by task version, " +
                with_commas(fleet.refused_by_token) + " by fencing token");
  lines.judge("effects", book.effects,
              exactly_once() ? "exactly one for each task" : "NOT one for each task",
              exactly_once());
  lines.judge("done twice", doubled(), "", doubled() == 0);
  lines.judge("lost", lost(), "", lost() == 0);
  lines.judge("lock violations", lock_violations(), "overwritten balances, tokens out of order",
              lock_violations() == 0);
  if (fleet.unexpected_ends > 0) {
    lines.judge("ended by themselves", fleet.unexpected_ends, "workers", false);
  }
  if (as_promised()) {
    char time[32];
    std::snprintf(time, sizeof time, "%.1f s", seconds);
    std::cout << "\n"
              << session.terminal.paint(Colour::green, "Everything as promised") << ", in " << time
              << ".\n";
  }
}

}  // namespace leasehold::cli
