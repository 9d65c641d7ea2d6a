// leasehold status and top: one screen about all stores, once or live.
#include <algorithm>
#include <iostream>

#include "commands.hpp"
#include "flag_values.hpp"
#include "snapshot_view.hpp"
#include "text.hpp"

namespace leasehold::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr std::size_t status_rows = 10;

ExitCode status(Session& session) {
  const Snapshot snapshot = SnapshotTaker(session.stores).take();
  if (session.json) {
    Session::print(as_json(snapshot));
  } else {
    std::cout << render(snapshot, session.terminal, status_rows);
  }
  return snapshot.code;
}

struct TopOptions {
  std::string interval = "1s";
};

std::string head_line(const Terminal& terminal, SortBy sort_by, milliseconds interval) {
  return terminal.paint(Colour::bold, "leasehold top") + "  every " + brief(interval) +
         ", sorted by " + (sort_by == SortBy::name ? "name" : "number") +
         "   s: sort, +/-: faster/slower, q: quit\n\n";
}

ExitCode top(Session& session, const TopOptions& options) {
  milliseconds interval = parse_duration("--interval", options.interval, 100ms, 1h);
  // A pipe or a program gets one snapshot: nobody is there to press a key.
  if (session.json || !session.terminal.interactive() || !can_ask()) return status(session);
  SnapshotTaker snapshots(session.stores);
  SortBy sort_by = SortBy::name;
  const FullScreen screen;
  while (true) {
    const Snapshot snapshot = snapshots.take();
    const auto shown_at = steady_clock::now();
    while (true) {
      // Room for three tables, less the lines around them.
      const std::size_t rows = (std::max<std::size_t>(session.terminal.rows(), 23) - 14) / 3;
      FullScreen::draw(head_line(session.terminal, sort_by, interval) +
                       render(snapshot, session.terminal, rows, sort_by));
      const auto left = std::chrono::ceil<milliseconds>(shown_at + interval - steady_clock::now());
      const auto key = FullScreen::key(std::max(left, 0ms));
      if (!key) break;
      if (*key == 'q') return ExitCode::done;
      if (*key == 's') sort_by = sort_by == SortBy::name ? SortBy::number : SortBy::name;
      if (*key == '+') interval = std::max<milliseconds>(100ms, interval / 2);
      if (*key == '-') interval = std::min<milliseconds>(1h, interval * 2);
    }
  }
}

}  // namespace

void add_status(Commands& commands) {
  commands.add(commands.root(),
               {.name = "status",
                .summary = "Show locks, tasks by type and state, workers and expired leases",
                .details = "Shows how many locks are held, waited for and stale, the tasks by type "
                           "and state (a + means more than 10,000), how long the oldest ready "
                           "task has been due, the workers that have leases now, the leases "
                           "that have expired but were not recovered, and how many were recovered "
                           "since the tables were created. The exit code is 4 if a "
                           "store does not answer.",
                .examples = "leasehold status\nleasehold status --json | jq .tasks.expired_leases"},
               {.locks = true, .tasks = true}, status);
}

void add_top(Commands& commands) {
  auto options = std::make_shared<TopOptions>();
  CLI::App& app = commands.add(
      commands.root(),
      {.name = "top",
       .summary = "Show the same as status, live",
       .details =
           "Shows what status shows, redrawn in place. Keys: s sorts by name or number, + and "
           "- redraw more or less often, q quits. Without a terminal it prints once.",
       .examples = "leasehold top --interval 500ms"},
      {.locks = true, .tasks = true},
      [options](Session& session) { return top(session, *options); });
  add_value(app, "--interval", options->interval, "TIME", "Time between two updates [1s]");
}

}  // namespace leasehold::cli
