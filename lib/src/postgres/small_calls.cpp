#include "postgres/small_calls.hpp"

#include <algorithm>
#include <iterator>

#include "leasehold/errors.hpp"
#include "postgres/lease_keys.hpp"
#include "postgres/lock_patience.hpp"
#include "postgres/rows.hpp"

namespace leasehold::inline v0::postgres {
namespace {

using std::chrono::milliseconds;

// Calls for fewer tasks than this are combined, and so many calls at most.
constexpr std::size_t small = 50;

/// How many combined calls are under way at once. Meanwhile later ones are collected.
std::size_t most_under_way(std::size_t connections) {
  return std::max<std::size_t>(1, connections / 8);
}

// With a locked row, if calls are combined: their callers can go on alone.
constexpr milliseconds patience_of_all{50};

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
      leases_(most_under_way(options.connections), may_lease_together,
              [this](auto calls) { lease_together(calls); }),
      completions_(most_under_way(options.connections), may_complete_together,
                   [this](auto calls) { complete_together(calls); }) {}

std::vector<LeasedTask> SmallCalls::lease(const LeaseRequest& request, LeaseId lease,
                                          std::size_t starts) {
  if (request.limit >= small) return leasing_.lease(request, lease, starts);
  LeaseCall call{request, lease, starts};
  leases_.submit(call);
  return std::move(call.tasks);
}

bool SmallCalls::may_lease_together(std::span<LeaseCall* const> chosen, const LeaseCall& next) {
  const LeaseRequest& first = chosen.front()->request;
  return chosen.size() < small && first.worker == next.request.worker &&
         first.duration == next.request.duration && first.types == next.request.types &&
         first.max_bytes == next.request.max_bytes;
}

/// One request for all, which differ only in their limits. They are served in the order in which
/// they came.
void SmallCalls::lease_together(std::span<LeaseCall* const> calls) {
  LeaseRequest sum = calls.front()->request;
  std::size_t starts = 0;
  sum.limit = 0;
  for (const LeaseCall* call : calls) {
    sum.limit += call->request.limit;
    starts += call->starts;
  }
  auto tasks = leasing_.lease(sum, calls.front()->lease, starts);
  auto next = std::make_move_iterator(tasks.begin());
  const auto end = std::make_move_iterator(tasks.end());
  for (LeaseCall* call : calls) {
    const auto share = std::min<std::ptrdiff_t>(std::ptrdiff_t(call->request.limit), end - next);
    call->tasks.assign(next, next + share);
    next += share;
  }
}

std::vector<TaskId> SmallCalls::complete(std::span<const FinishedTask> tasks, Keep keep) {
  if (tasks.size() >= small) return complete_now(tasks, keep, patience_);
  CompleteCall call{tasks, keep};
  completions_.submit(call);
  if (call.alone) return complete_now(tasks, keep, patience_);
  return std::move(call.accepted);
}

std::vector<TaskId> SmallCalls::complete_now(std::span<const FinishedTask> tasks, Keep keep,
                                             milliseconds patience) {
  return to_ids(pool_.run(statements_.complete, completion_params(tasks, keep, patience)));
}

bool SmallCalls::may_complete_together(std::span<CompleteCall* const> chosen,
                                       const CompleteCall& next) {
  // The answer names ids, so two leases of one task could not be told apart.
  const auto fits = [&](const CompleteCall* other) {
    return other->keep == next.keep &&
           std::none_of(other->tasks.begin(), other->tasks.end(), [&](const auto& task) {
             return std::any_of(next.tasks.begin(), next.tasks.end(),
                                [&](const auto& mine) { return mine.key.id == task.key.id; });
           });
  };
  return chosen.size() < small && std::all_of(chosen.begin(), chosen.end(), fits);
}

void SmallCalls::complete_together(std::span<CompleteCall* const> calls) {
  if (calls.size() == 1) {
    CompleteCall& call = *calls.front();
    call.accepted = complete_now(call.tasks, call.keep, patience_);
    return;
  }
  const Keep keep = calls.front()->keep;
  std::vector<FinishedTask> all;
  for (const CompleteCall* call : calls) {
    all.insert(all.end(), call->tasks.begin(), call->tasks.end());
  }
  // In order of id, as the statement wants them.
  std::sort(all.begin(), all.end(),
            [](const FinishedTask& a, const FinishedTask& b) { return a.key.id < b.key.id; });
  std::vector<TaskId> accepted;
  try {
    accepted = complete_now(all, keep, std::min(patience_, patience_of_all));
  } catch (const ServerRefused&) {
    // Perhaps because of a single task, for instance because somebody has locked its row. Nobody
    // else waits for it: each caller goes on alone.
    for (CompleteCall* call : calls) call->alone = true;
    return;
  }
  std::sort(accepted.begin(), accepted.end());
  for (CompleteCall* call : calls) {
    call->accepted.clear();
    for (const FinishedTask& task : call->tasks) {
      if (std::binary_search(accepted.begin(), accepted.end(), task.key.id)) {
        call->accepted.push_back(task.key.id);
      }
    }
  }
}

}  // namespace leasehold::inline v0::postgres
