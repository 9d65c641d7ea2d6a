// leasehold locks: list, show, release, clean.
#include <iostream>

#include "commands.hpp"
#include "common/iso_time.hpp"
#include "common/secrets.hpp"
#include "flag_values.hpp"
#include "leasehold/errors.hpp"
#include "leasehold/lock_client.hpp"
#include "records.hpp"
#include "text.hpp"

namespace leasehold::cli {
namespace {

using common::iso_time;
using nlohmann::ordered_json;

struct ListOptions {
  std::string pattern = "*";
  std::string state;
};

std::string expires_in(const LockRecord& lock) {
  if (lock.kind == LockKind::shared) return "";
  return lock.state == LockState::stale ? "expired" : brief(lock.remaining);
}

ExitCode list(Session& session, const ListOptions& options) {
  if (!options.state.empty()) parse_word("--state", options.state, {"held", "stale"});
  std::vector<LockRecord> locks = session.stores.locks().list(options.pattern);
  std::erase_if(locks, [&](const LockRecord& lock) {
    return !options.state.empty() && options.state != to_string(lock.state);
  });
  if (session.json) {
    Session::print(as_json_array(locks));
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
               {"EXPIRES IN", Column::Align::right},
               {"WAITING", Column::Align::right},
               {"TOKEN", Column::Align::right},
               {"HOLDER"}});
  for (const LockRecord& lock : locks) {
    table.add({lock.name,
               {to_string(lock.state), colour_of(lock.state)},
               to_string(lock.kind),
               lock.kind == LockKind::shared ? "" : brief(lock.age),
               expires_in(lock),
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
  facts.add("expires", lock.state == LockState::stale
                           ? "expired without a release"
                           : "in " + brief(lock.remaining) + ", ttl " + brief(lock.ttl));
  for (const auto& [key, value] : lock.metadata) facts.add("  " + printable(key), value);
}

ExitCode show(Session& session, const std::string& name) {
  const auto lock = session.stores.locks().status(name);
  if (!lock) {
    throw Failure(ExitCode::not_found, "the lock " + common::shown(name) + " is free");
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
  Table table({{"PLACE", Column::Align::right},
               {"KIND"},
               {"PRIO", Column::Align::right},
               {"SINCE"},
               {"RUNNER"}});
  int place = 0;
  for (const LockWaiter& waiter : lock->waiters) {
    table.add({std::to_string(++place), to_string(waiter.kind), std::to_string(waiter.priority),
               iso_time(waiter.since),
               waiter.runner + " (pid " + std::to_string(waiter.pid) + " on " + waiter.host + ")"});
  }
  std::cout << "\n" << table.render(session.terminal);
  return ExitCode::done;
}

/// For the question: " is held by R (pid 7 on host) for 5s".
std::string describe_holder(const LockRecord& lock) {
  if (lock.state == LockState::stale) return " is stale, last held by " + holder_of(lock);
  return " is held by " + holder_of(lock) +
         (lock.kind == LockKind::shared ? "" : " for " + brief(lock.age));
}

ExitCode release(Session& session, const std::vector<std::string>& names) {
  LockClient client = session.stores.locks();
  if (!session.yes) {
    for (const std::string& name : names) {
      if (const auto lock = client.status(name)) {
        std::cerr << printable(name + describe_holder(*lock)) << "\n";
      }
    }
  }
  session.confirm("Release " + std::string(names.size() == 1 ? "this lock" : "these locks") +
                  " by force? The holder is notified, but may be in the middle of its work.");
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
                << (lock ? ": taken from " + printable(holder_of(*lock)) : ": was already free")
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
  session.confirm("Remove the records of stale locks that match " + common::shown(pattern) + "?");
  const std::vector<LockRecord> removed = client.cleanup_stale(pattern);
  if (session.json) {
    Session::print({{"removed", as_json_array(removed)}});
    return ExitCode::done;
  }
  for (const LockRecord& lock : removed) {
    std::cout << printable(lock.name) << ": last held by " << printable(holder_of(lock)) << "\n";
  }
  std::cout << with_commas(removed.size()) << " removed\n";
  return ExitCode::done;
}

void add_list(Commands& commands, CLI::App& locks) {
  auto options = std::make_shared<ListOptions>();
  CLI::App& app = commands.add(
      locks,
      {.name = "list",
       .summary = "List locks that are held or stale",
       .details = "Lists locks by name. A stale lock expired without a release, because its holder "
                  "crashed, hung or lost its connection. It is free: the next request gets it.",
       .examples = "leasehold locks list\n"
                   "leasehold locks list 'invoice:*' --state stale --json"},
      {.locks = true}, [options](Session& session) { return list(session, *options); });
  app.add_option("PATTERN", options->pattern, "Names, with the wildcards *, ? and [a-z] [*]");
  add_value(app, "--state", options->state, "STATE", "Only locks in this state: held or stale");
}

void add_show(Commands& commands, CLI::App& locks) {
  auto name = std::make_shared<std::string>();
  CLI::App& app = commands.add(
      locks,
      {.name = "show",
       .summary = "Show who holds a lock and who waits for it",
       .details =
           "Shows the holder of a lock and the waiters in line. The exit code is 3 if the lock "
           "is free.",
       .examples = "leasehold locks show invoice:42"},
      {.locks = true}, [name](Session& session) { return show(session, *name); });
  app.add_option("NAME", *name, "Name of the lock")->required();
}

void add_release(Commands& commands, CLI::App& locks) {
  auto names = std::make_shared<std::vector<std::string>>();
  CLI::App& app = commands.add(
      locks,
      {.name = "release",
       .summary = "Take a lock away from its holder",
       .details =
           "Releases locks by force. The holder is notified at once, and the next waiter gets "
           "the lock with a larger fencing token. Writes of the old holder are refused "
           "only where fencing tokens are checked.",
       .examples = "leasehold locks release invoice:42\nleasehold locks release a b --yes --json"},
      {.locks = true, .confirmation = true},
      [names](Session& session) { return release(session, *names); });
  add_values(app, "NAME", *names, "Names of locks", 1'000)->required();
}

void add_clean(Commands& commands, CLI::App& locks) {
  auto pattern = std::make_shared<std::string>("*");
  CLI::App& app = commands.add(
      locks,
      {.name = "clean",
       .summary = "Remove the records of stale locks",
       .details = "Removes the records of stale locks. They block nobody, and disappear by "
                  "themselves after an hour by default.",
       .examples = "leasehold locks clean\nleasehold locks clean 'invoice:*' --yes"},
      {.locks = true, .confirmation = true},
      [pattern](Session& session) { return clean(session, *pattern); });
  app.add_option("PATTERN", *pattern, "Names, with the wildcards *, ? and [a-z] [*]");
}

}  // namespace

void add_locks(Commands& commands) {
  CLI::App& locks = commands.add_group({.name = "locks",
                                        .summary = "Show locks and release them by force",
                                        .details = "",
                                        .examples = "leasehold locks list 'invoice:*'\n"
                                                    "leasehold locks show invoice:42\n"
                                                    "leasehold locks release invoice:42"},
                                       {.locks = true});
  add_list(commands, locks);
  add_show(commands, locks);
  add_release(commands, locks);
  add_clean(commands, locks);
}

}  // namespace leasehold::cli
