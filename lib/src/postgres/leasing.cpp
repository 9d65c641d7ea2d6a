#include "postgres/leasing.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "leasehold/errors.hpp"
#include "postgres/lock_patience.hpp"
#include "postgres/postgres_errors.hpp"
#include "postgres/rows.hpp"
#include "support/backoff.hpp"
#include "support/random.hpp"

namespace leasehold::inline v0::postgres {
namespace {

constexpr std::size_t most_lost = 100;
constexpr std::chrono::milliseconds longest_search = std::chrono::minutes{5};
constexpr std::chrono::milliseconds between_give_backs{500};
constexpr std::chrono::milliseconds patience_at_the_end{1'000};

std::size_t bytes_of(const LeasedTask& task) { return task.payload.size() + task.progress.size(); }

std::string_view as_text(bool value) { return value ? "true" : "false"; }

}  // namespace

/// What one statement has leased.
struct Leasing::Reply {
  std::vector<LeasedTask> tasks{};
  bool cut = false;  ///< there were more, but the statement may not lease so many
  Clock::time_point sent;
};

/// One call of lease(), which takes one statement or a few.
struct Leasing::Call {
  const LeaseRequest& request;
  std::size_t starts;
  std::size_t bytes;  ///< that the rest of the tasks may have
  Companion* companion;
  LeaseId lease{};  ///< of the statement under way
  std::vector<LeasedTask> tasks{};
  std::vector<std::string> with_more{};  ///< types that the last statement leased in full
  std::set<std::string> with_floor{};    ///< types that were not searched from the head

  std::size_t missing() const { return bytes == 0 ? 0 : request.limit - tasks.size(); }
};

Leasing::Leasing(ConnectionPool& pool, const Statements& statements, const PostgresOptions& options)
    : pool_(pool),
      statements_(statements),
      options_(options),
      patience_(table_patience(options.command_timeout)) {
  const ThreadLock lock(mutex_);
  lost_.reserve(most_lost);  // so that looking for them later cannot fail
}

std::vector<LeasedTask> Leasing::lease(const LeaseRequest& request, std::size_t starts,
                                       Companion* companion) {
  try {
    give_back_lost(When::if_due);
  } catch (const OutcomeUnknown& error) {
    throw Unavailable(error.what());  // nothing of this call has been sent
  }
  // Another type goes first each time, so that a limit below the number of types is fair too.
  std::vector<std::string> types = request.types;
  const auto first = std::ptrdiff_t(turns_.next(types));
  std::rotate(types.begin(), types.begin() + first, types.end());

  Call call{request, starts, request.max_bytes, companion};
  const std::size_t share = (request.limit + types.size() - 1) / types.size();
  try {
    run(call, types, share, From::floor);
    run_for_the_rest(call);
  } catch (const std::exception&) {
    const bool completed = companion != nullptr && companion->done;
    if (completed) companion->lease_error = std::current_exception();
    // The tasks that were leased before must be returned: otherwise they would wait for their
    // leases to expire. If the trouble lasts, the next call reports it.
    if (call.tasks.empty() && !completed) throw;
  }
  std::sort(call.tasks.begin(), call.tasks.end(), [](const auto& a, const auto& b) {
    return std::tuple(-a.priority, a.run_at_us, a.key.id) <
           std::tuple(-b.priority, b.run_at_us, b.key.id);
  });
  return std::move(call.tasks);
}

bool Leasing::is_quick(const LeaseRequest& request) {
  return std::all_of(request.types.begin(), request.types.end(),
                     [this](const auto& type) { return floors_.full_scan_is_cheap(type); });
}

void Leasing::run_for_the_rest(Call& call) {
  // What some types did not use goes to those that have more tasks.
  if (call.missing() > 0 && call.request.types.size() > 1 && !call.with_more.empty()) {
    const auto hungry = std::exchange(call.with_more, {});
    run(call, hungry, call.missing(), From::floor);
  }
  // Perhaps tasks came back to a place before the floors.
  if (call.missing() > 0 && !call.with_floor.empty()) {
    std::vector<std::string> again(call.with_floor.begin(), call.with_floor.end());
    std::erase_if(again, [&](const auto& type) { return !floors_.full_scan_is_cheap(type); });
    if (!again.empty()) run(call, again, call.missing(), From::head);
  }
}

void Leasing::run(Call& call, std::span<const std::string> types, std::size_t share, From from) {
  // If the reply is lost, its tasks are found by this number: those of other statements must not
  // be taken for them.
  call.lease = LeaseId{random_number()};
  Companion* const companion = std::exchange(call.companion, nullptr);
  const auto sent = Clock::now();
  ArrayText names;
  ArrayText gaps;
  ArrayText of;
  ArrayText ranks;
  ArrayText run_ats;
  ArrayText ids;
  Scans scans;
  for (std::size_t i = 0; i < types.size(); ++i) {
    names.add(types[i]);
    const auto search =
        from == From::floor ? floors_.search_for(types[i], sent) : LeaseFloors::Search{};
    gaps.add(as_text(search.gaps));
    scans[types[i]].full = search.floors.empty();
    scans[types[i]].gaps = search.gaps;
    for (const auto& [rank, place] : search.floors) {
      of.add(static_cast<std::int64_t>(i + 1));
      ranks.add(rank);
      run_ats.add(place.run_at_us);
      ids.add(place.id);
    }
  }
  Params params = companion ? companion->params : Params{};
  params.add(std::string_view(call.request.worker))
      .add(call.lease.value)
      .add(call.request.duration.count())
      .add(static_cast<std::int64_t>(share))
      .add(static_cast<std::int64_t>(call.missing()))
      .add(static_cast<std::int64_t>(call.bytes))
      .add(static_cast<std::int64_t>(call.starts));
  if (!companion) {
    params.add(as_text(options_.lease_commit == LeaseCommit::wait)).add(patience_.count());
  }
  params.add(std::move(names))
      .add(std::move(gaps))
      .add(std::move(of))
      .add(std::move(ranks))
      .add(std::move(run_ats))
      .add(std::move(ids));
  Reply reply = send(call, params, companion);
  try {
    take(call, reply, types, share, scans);
  } catch (const std::bad_alloc&) {
    std::erase_if(call.tasks, [&](const auto& task) { return task.key.lease == call.lease; });
    look_for_later(call);
    throw;
  }
}

/// Notes what a statement has leased, and what can be learned from it.
void Leasing::take(Call& call, Reply& reply, std::span<const std::string> types, std::size_t share,
                   Scans& scans) {
  const auto now = Clock::now();
  std::map<std::string_view, std::size_t> leased;
  std::size_t bytes = 0;
  for (LeasedTask& task : reply.tasks) {
    bytes += bytes_of(task);
    if (task.started && call.starts > 0) --call.starts;
    const auto scan = scans.find(task.type);
    const LeasePlace place{task.run_at_us, task.key.id.value};
    const auto [last, is_new] = scan->second.last.emplace(-task.priority, place);
    if (!is_new) last->second = std::max(last->second, place);
    ++leased[scan->first];
    call.tasks.push_back(std::move(task));
  }
  const bool full = call.request.limit == call.tasks.size();
  const bool cut = reply.cut;
  call.bytes = cut || bytes >= call.bytes ? 0 : call.bytes - bytes;
  for (const std::string& type : types) {
    LeaseFloors::Scan& scan = scans[type];
    if ((full || cut) && leased[type] == 0) {  // its turn did not come: nothing was learned
      if (scan.full) floors_.forget(type);     // the full scan is still due
      continue;
    }
    scan.satisfied = leased[type] >= share || full || cut;
    scan.took = now - reply.sent;
    floors_.learn(type, scan, now);
    if (leased[type] >= share) call.with_more.push_back(type);
    if (!scan.full) call.with_floor.insert(type);
  }
}

/// Waits while too many others are leasing.
Leasing::Reply Leasing::send(const Call& call, const Params& params, Companion* companion) {
  const Statement& statement = companion ? statements_.complete_and_lease : statements_.lease;
  Backoff pause(std::chrono::milliseconds{1}, std::chrono::milliseconds{50});
  const auto deadline = Clock::now() + options_.command_timeout;
  for (;;) {
    Reply reply{.sent = Clock::now()};
    try {
      const pqxx::result rows = pool_.run(statement, params);
      bool refused = false;
      reply.tasks.reserve(static_cast<std::size_t>(rows.size()));
      for (const auto& row : rows) {
        if (const auto completed = to_completed(row)) {
          companion->accepted.push_back(*completed);
        } else if (is_refused_place(row)) {
          refused = true;
        } else {
          reply.tasks.push_back(to_leased_task(row));
          reply.tasks.back().key.lease = call.lease;
          reply.cut = was_cut_short(row);
        }
      }
      if (companion) companion->done = true;
      if (!refused) return reply;
      // The completions must not wait for the lease.
      if (companion) throw Unavailable(pool_.where() + ": too many others are leasing");
    } catch (const OutcomeUnknown&) {
      look_for_later(call);
      throw;
    } catch (const SqlRefused& refused) {
      // Completions that share the statement can meet a locked row; a lease only a locked table.
      if (companion || refused.sqlstate() != sqlstate::lock_not_available) throw;
      throw Unavailable(refused.what());
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {  // no memory for the tasks, for example
      look_for_later(call);
      throw OutcomeUnknown(pool_.where() + ": the leased tasks could not be read (" + error.what() +
                           ")");
    }
    if (Clock::now() >= deadline) {
      throw Unavailable(pool_.where() + ": too many others were leasing within the time-out");
    }
    std::this_thread::sleep_for(pause.next());
  }
}

/// The tasks of this call may be leased to nobody. They are given back later.
void Leasing::look_for_later(const Call& call) noexcept {
  const ThreadLock lock(mutex_);
  if (lost_.size() >= most_lost) lost_.erase(lost_.begin());
  lost_.push_back({call.lease, Clock::now() + std::min(call.request.duration, longest_search)});
}

/// A call that hangs on the server can still be executed after we have looked, so each is looked
/// for until its leases have expired, or for some minutes if they are long.
void Leasing::give_back_lost(When when) {
  ArrayText ids;
  {
    const ThreadLock lock(mutex_);
    const auto now = Clock::now();
    std::erase_if(lost_, [&](const Lost& one) { return one.until < now; });
    if (lost_.empty() || (when == When::if_due && now < next_give_back_)) return;
    next_give_back_ = now + between_give_backs;
    for (const Lost& one : lost_) ids.add(one.lease.value);
  }
  Params params;
  params.add(std::move(ids));
  const auto patient_until = Clock::now() + patience_at_the_end;
  for (;;) {
    try {
      for (const auto& row : pool_.run(statements_.give_back, params)) {
        floors_.forget(row[1].c_str());
      }
      return;
    } catch (const SqlRefused& refused) {
      // Somebody has locked the table. The next call tries again, if there is one.
      if (refused.sqlstate() != sqlstate::lock_not_available) throw;
      if (when == When::if_due) return;
      if (Clock::now() >= patient_until) throw;
    }
  }
}

}  // namespace leasehold::inline v0::postgres
