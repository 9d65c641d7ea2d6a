#include "postgres/small_calls.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "leasehold/errors.hpp"
#include "postgres/lease_keys.hpp"
#include "postgres/lock_patience.hpp"
#include "postgres/rows.hpp"
#include "tasks/accepted.hpp"

namespace leasehold::inline v0::postgres {
namespace {

using std::chrono::milliseconds;

// Calls for fewer tasks than this are combined, and so many calls at most.
constexpr std::size_t small = 50;
// So many bytes of results at most, in addition to those of a single call.
constexpr std::size_t most_result_bytes = 1024 * 1024;

std::size_t bytes_of(std::span<const FinishedTask> tasks) {
  return std::accumulate(
      tasks.begin(), tasks.end(), std::size_t{0},
      [](std::size_t sum, const FinishedTask& task) { return sum + task.result.size(); });
}

/// How many combined calls are under way at once. Meanwhile later ones are collected.
std::size_t most_under_way(std::size_t connections) {
  return std::max<std::size_t>(1, connections / 8);
}

// With a locked row, if calls are combined: their callers can go on alone.
constexpr milliseconds patience_of_all{50};

template <typename Kind, typename Calls>
std::vector<Kind*> only(const Calls& calls) {
  std::vector<Kind*> found;
  for (auto* call : calls) {
    if (auto* one = std::get_if<Kind>(call)) found.push_back(one);
  }
  return found;
}

/// In order of id, as the statement wants them.
std::vector<FinishedTask> tasks_of(const auto& completions) {
  std::vector<FinishedTask> all;
  for (const auto* call : completions) {
    all.insert(all.end(), call->tasks.begin(), call->tasks.end());
  }
  std::sort(all.begin(), all.end(),
            [](const FinishedTask& a, const FinishedTask& b) { return a.key.id < b.key.id; });
  return all;
}

void share_out(std::vector<LeaseName> answer, const auto& completions) {
  const Accepted accepted(std::move(answer));
  for (auto* call : completions) {
    call->accepted.clear();
    for (const FinishedTask& task : call->tasks) {
      if (accepted.contains(task.key)) call->accepted.push_back(task.key.name());
    }
  }
}

}  // namespace

Params completion_params(std::span<const FinishedTask> tasks, Keep keep,
                         std::optional<milliseconds> patience) {
  Params params;
  add_keys(params, tasks, [](const FinishedTask& task) { return task.key; });
  ArrayText results(tasks.size() * 5);
  for (const FinishedTask& task : tasks) {
    if (keep == Keep::no) break;
    if (task.result.empty()) {
      results.add_null();
    } else {
      results.add(task.result);
    }
  }
  params.add(std::move(results)).add(std::string_view(keep == Keep::yes ? "true" : "false"));
  params.add(patience ? std::optional(patience->count()) : std::nullopt);
  return params;
}

SmallCalls::SmallCalls(ConnectionPool& pool, Leasing& leasing, const Statements& statements,
                       const PostgresOptions& options)
    : pool_(pool),
      leasing_(leasing),
      statements_(statements),
      patience_(lock_patience(options.command_timeout)),
      may_do_both_(options.lease_commit == LeaseCommit::wait),
      calls_(
          most_under_way(options.connections),
          [this](auto chosen, const Call& next) { return may_join(chosen, next); },
          [this](auto calls) { run(calls); }) {}

std::vector<LeasedTask> SmallCalls::lease(const LeaseRequest& request, std::size_t starts) {
  if (request.limit >= small) return leasing_.lease(request, starts);
  Call call = LeaseCall{request, starts};
  calls_.submit(call);
  auto& mine = std::get<LeaseCall>(call);
  if (mine.alone) return leasing_.lease(request, starts);
  return std::move(mine.tasks);
}

std::vector<LeaseName> SmallCalls::complete(std::span<const FinishedTask> tasks, Keep keep) {
  if (tasks.size() >= small) return complete_now(tasks, keep, patience_);
  Call call = CompleteCall{tasks, keep};
  calls_.submit(call);
  auto& mine = std::get<CompleteCall>(call);
  if (mine.alone) return complete_now(tasks, keep, patience_);
  return std::move(mine.accepted);
}

bool SmallCalls::may_join(std::span<Call* const> chosen, const Call& next) {
  if (chosen.size() >= small) return false;
  const auto leases = only<LeaseCall>(chosen);
  const auto completions = only<CompleteCall>(chosen);
  if (const auto* lease = std::get_if<LeaseCall>(&next)) {
    if (!leases.empty()) return may_lease_together(leases, *lease);
    return may_do_both_ && leasing_.is_quick(lease->request);
  }
  if (!completions.empty()) {
    return may_complete_together(completions, std::get<CompleteCall>(next));
  }
  return may_do_both_ && leasing_.is_quick(leases.front()->request);
}

bool SmallCalls::may_lease_together(const Leases& chosen, const LeaseCall& next) const {
  const LeaseRequest& first = chosen.front()->request;
  return first.worker == next.request.worker && first.duration == next.request.duration &&
         first.types == next.request.types && first.max_bytes == next.request.max_bytes;
}

bool SmallCalls::may_complete_together(const Completions& chosen, const CompleteCall& next) {
  std::size_t bytes = bytes_of(next.tasks);
  for (const CompleteCall* call : chosen) bytes += bytes_of(call->tasks);
  return bytes <= most_result_bytes && chosen.front()->keep == next.keep;
}

void SmallCalls::run(std::span<Call* const> calls) {
  const auto leases = only<LeaseCall>(calls);
  const auto completions = only<CompleteCall>(calls);
  if (completions.empty()) {
    lease_together(leases, nullptr);
  } else if (leases.empty()) {
    complete_together(completions);
  } else {
    do_both(leases, completions);
  }
}

/// One request for all, which differ only in their limits. They are served in the order in which
/// they came.
void SmallCalls::lease_together(const Leases& calls, Leasing::Companion* companion) {
  LeaseRequest sum = calls.front()->request;
  std::size_t starts = 0;
  sum.limit = 0;
  for (const LeaseCall* call : calls) {
    sum.limit += call->request.limit;
    starts += call->starts;
  }
  auto tasks = leasing_.lease(sum, starts, companion);
  auto next = std::make_move_iterator(tasks.begin());
  const auto end = std::make_move_iterator(tasks.end());
  for (LeaseCall* call : calls) {
    const auto share = std::min<std::ptrdiff_t>(std::ptrdiff_t(call->request.limit), end - next);
    call->tasks.assign(next, next + share);
    next += share;
  }
}

void SmallCalls::complete_together(const Completions& calls) {
  if (calls.size() == 1) {
    CompleteCall& call = *calls.front();
    call.accepted = complete_now(call.tasks, call.keep, patience_);
    return;
  }
  try {
    share_out(
        complete_now(tasks_of(calls), calls.front()->keep, std::min(patience_, patience_of_all)),
        calls);
  } catch (const ServerRefused&) {
    // Perhaps because of a single task, for instance because somebody has locked its row. Nobody
    // else waits for it: each caller goes on alone.
    for (CompleteCall* call : calls) call->alone = true;
  }
}

/// What callers who work through a queue one by one need: some complete a task while others lease
/// the next one. One commit for both does half as much work.
void SmallCalls::do_both(const Leases& leases, const Completions& completions) {
  const auto finished = tasks_of(completions);
  Leasing::Companion companion{
      completion_params(finished, completions.front()->keep, std::min(patience_, patience_of_all))};
  try {
    lease_together(leases, &companion);
    share_out(std::move(companion.accepted), completions);
  } catch (const ServerRefused&) {
    for (CompleteCall* call : completions) call->alone = true;
    for (LeaseCall* call : leases) call->alone = true;
  }
  // Those who got nothing find out why by themselves.
  if (!companion.lease_error) return;
  for (LeaseCall* call : leases) call->alone = call->tasks.empty();
}

std::vector<LeaseName> SmallCalls::complete_now(std::span<const FinishedTask> tasks, Keep keep,
                                                milliseconds patience) {
  return to_lease_names(pool_.run(statements_.complete, completion_params(tasks, keep, patience)));
}

}  // namespace leasehold::inline v0::postgres
