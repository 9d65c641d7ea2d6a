// leasehold locks: list, show, release, clean.
#include <iostream>

#include "commands.hpp"
#include "leasehold/errors.hpp"
#include "leasehold/lock_client.hpp"
#include "records.hpp"
#include "text.hpp"
#include "worker/secrets.hpp"

namespace leasehold::cli {
namespace {

using nlohmann::ordered_json;

struct ListOptions {
  std::string pattern = "*";
  std::string state;
};

std::string left(const LockRecord& lock) {
  if (lock.kind == LockKind::shared) return "";
  return lock.state == LockState::stale ? "ended" : brief(lock.remaining);
}

ExitCode list(Session& session, const ListOptions& options) {
  if (!options.state.empty() && options.state != "held" && options.state != "stale") {
    throw InvalidArgument("--state of " + worker::shown(options.state) +
                          ": allowed are held, stale");
  }
  std::vector<LockRecord> locks = session.stores.locks().list(options.pattern);
  std::erase_if(locks, [&](const LockRecord& lock) {
    return !options.state.empty() && options.state != to_string(lock.state);
  });
  if (session.json) {
    ordered_json array = ordered_json::array();
    for (const LockRecord& lock : locks) array.push_back(as_json(lock));
    Session::print(array);
    return ExitCode::done;
  }
  if (locks.empty()) {
    std::cerr << "no such locks\n";
    return ExitCode::done;
  }
  Table table({{"NAME"},
               {"STATE"},
               {"KIND"},
               {"HELD FOR", Column::Align::right},
               {"LEASE", Column::Align::right},
               {"WAITING", Column::Align::right},
               {"TOKEN", Column::Align::right},
               {"HOLDER"}});
  for (const LockRecord& lock : locks) {
    table.add({lock.name,
               {to_string(lock.state), colour_of(lock.state)},
               to_string(lock.kind),
               lock.kind == LockKind::shared ? "" : brief(lock.age),
               left(lock),
               std::to_string(lock.waiter_count),
               std::to_string(lock.token.value),
               holder_of(lock)});
  }
  std::cout << table.render(session.terminal);
  return ExitCode::done;
}

void add_record(Facts& facts, const LockRecord& lock) {
  facts.add("holder", runner_of(lock));
  if (!lock.platform.empty()) facts.add("platform", lock.platform);
  facts.add("acquired", iso_time(lock.acquired_at) + " (" + brief(lock.age) + " ago)");
  facts.add("heartbeat",
            brief(lock.heartbeat_age) + " ago, " + with_commas(lock.renewals) + " renewals");
  facts.add("lease", lock.state == LockState::stale
                         ? "ended without a release"
                         : brief(lock.remaining) + " left of " + brief(lock.ttl));
  for (const auto& [key, value] : lock.metadata) facts.add("  " + printable(key), value);
}

ExitCode show(Session& session, const std::string& name) {
  const auto lock = session.stores.locks().status(name);
  if (!lock) {
    throw Failure(ExitCode::not_found, "the lock " + worker::shown(name) + " is free");
  }
  if (session.json) {
    Session::print(as_json(*lock));
    return ExitCode::done;
  }
  Facts facts;
  facts.add("name", lock->name);
  facts.add("state", {to_string(lock->state), colour_of(lock->state)});
  facts.add("kind", to_string(lock->kind));
  facts.add("token", std::to_string(lock->token.value));
  if (lock->kind == LockKind::exclusive) add_record(facts, *lock);
  for (const LockRecord& holder : lock->holders) add_record(facts, holder);
  facts.add("waiting", with_commas(lock->waiter_count));
  std::cout << facts.render(session.terminal);
  if (lock->waiters.empty()) return ExitCode::done;
  Table table({{"NEXT", Column::Align::right},
               {"KIND"},
               {"PRIO", Column::Align::right},
               {"SINCE"},
               {"WHO"}});
  int place = 0;
  for (const LockWaiter& waiter : lock->waiters) {
    table.add({std::to_string(++place), to_string(waiter.kind), std::to_string(waiter.priority),
               iso_time(waiter.since),
               waiter.runner + " (pid " + std::to_string(waiter.pid) + " on " + waiter.host + ")"});
  }
  std::cout << "\n" << table.render(session.terminal);
  return ExitCode::done;
}

ExitCode release(Session& session, const std::vector<std::string>& names) {
  LockClient client = session.stores.locks();
  if (!session.yes) {
    for (const std::string& name : names) {
      if (const auto lock = client.status(name)) {
        std::cerr << printable(name) << " is " << to_string(lock->state) << " by "
                  << printable(holder_of(*lock))
                  << (lock->kind == LockKind::shared ? "" : " for " + brief(lock->age)) << "\n";
      }
    }
  }
  session.confirm("Take " + std::string(names.size() == 1 ? "this lock" : "these locks") +
                  " away? The holder is told, but may be in the middle of its work.");
  ExitCode code = ExitCode::done;
  ordered_json array = ordered_json::array();
  try {
    for (const std::string& name : names) {
      const auto lock = client.force_release(name);
      if (!lock) code = ExitCode::not_found;
      array.push_back({{"name", name},
                       {"released", lock.has_value()},
                       {"holder", lock ? as_json(*lock) : ordered_json()}});
      if (session.json) continue;
      std::cout << printable(name)
                << (lock ? ": taken from " + printable(holder_of(*lock)) : ": was free already")
                << "\n";
    }
  } catch (const Error& error) {
    if (array.empty()) throw;
    if (session.json) Session::print(array);
    throw failure_in_the_middle(error, with_commas(array.size()) + " done before this");
  }
  if (session.json) Session::print(array);
  return code;
}

ExitCode clean(Session& session, const std::string& pattern) {
  LockClient client = session.stores.locks();
  session.confirm("Remove what holders that vanished left behind, for locks that match " +
                  worker::shown(pattern) + "?");
  const std::vector<LockRecord> removed = client.cleanup_stale(pattern);
  if (session.json) {
    ordered_json array = ordered_json::array();
    for (const LockRecord& lock : removed) array.push_back(as_json(lock));
    Session::print({{"removed", array}});
    return ExitCode::done;
  }
  for (const LockRecord& lock : removed) {
    std::cout << printable(lock.name) << ": left behind by " << printable(holder_of(lock)) << "\n";
  }
  std::cout << with_commas(removed.size()) << " removed\n";
  return ExitCode::done;
}

}  // namespace

void add_locks(Commands& commands) {
  CLI::App& locks = commands.add_group({.name = "locks",
                                        .summary = "Look at locks and take them away",
                                        .details = "",
                                        .examples = "leasehold locks list 'invoice:*'\n"
                                                    "leasehold locks show invoice:42\n"
                                                    "leasehold locks release invoice:42"},
                                       {.locks = true});

  auto options = std::make_shared<ListOptions>();
  CLI::App& list_app = commands.add(
      locks,
      {.name = "list",
       .summary = "Locks that are held, or were left behind",
       .details = "Lists locks by name. A stale one was not released: its holder crashed, hung or "
                  "lost its way to the store. Its lease has ended, so anybody can take it.",
       .examples = "leasehold locks list\n"
                   "leasehold locks list 'invoice:*' --state stale --json"},
      {.locks = true}, [options](Session& session) { return list(session, *options); });
  list_app.add_option("PATTERN", options->pattern, "Names to list, with *, ? and [a-z] [*]");
  list_app.add_option("--state", options->state, "held or stale")->type_name("STATE");

  auto name = std::make_shared<std::string>();
  CLI::App& show_app = commands.add(
      locks,
      {.name = "show",
       .summary = "Who holds a lock, and who waits for it",
       .details = "Shows who holds a lock and who stands in line. Exit code 3: it is free.",
       .examples = "leasehold locks show invoice:42"},
      {.locks = true}, [name](Session& session) { return show(session, *name); });
  show_app.add_option("NAME", *name, "The lock")->required();

  auto names = std::make_shared<std::vector<std::string>>();
  CLI::App& release_app = commands.add(
      locks,
      {.name = "release",
       .summary = "Take a lock away from whoever holds it",
       .details = "An operator's override. The holder is told at once and the next in line gets "
                  "the lock, with a larger fencing token; what the old holder still writes is "
                  "refused only where tokens are checked.",
       .examples = "leasehold locks release invoice:42\nleasehold locks release a b --yes --json"},
      {.locks = true, .confirmation = true},
      [names](Session& session) { return release(session, *names); });
  release_app.add_option("NAME", *names, "The locks")
      ->required()
      ->expected(1, 1'000)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);

  auto pattern = std::make_shared<std::string>("*");
  CLI::App& clean_app = commands.add(
      locks,
      {.name = "clean",
       .summary = "Remove what holders that vanished left behind",
       .details = "Removes the records of stale locks. They block nobody and go by themselves, "
                  "after an hour by default.",
       .examples = "leasehold locks clean\nleasehold locks clean 'invoice:*' --yes"},
      {.locks = true, .confirmation = true},
      [pattern](Session& session) { return clean(session, *pattern); });
  clean_app.add_option("PATTERN", *pattern, "Names of locks, with *, ? and [a-z] [*]");
}

}  // namespace leasehold::cli
