#include "postgres/small_calls.hpp"

#include <algorithm>
#include <iterator>

#include "leasehold/errors.hpp"
#include "postgres/lease_keys.hpp"
#include "postgres/rows.hpp"

namespace leasehold::inline v0::postgres {
namespace {

// Calls for fewer tasks than this are combined.
constexpr std::size_t small = 50;

/// How many combined calls are under way at once. Meanwhile later ones are collected.
std::size_t most_under_way(std::size_t connections) {
  return std::max<std::size_t>(1, connections / 8);
}

/// The parameters of a statement's lease that leases nothing: it has no types.
Params no_lease() {
  Params params;
  params.add(std::string_view{}).add(std::int64_t{0}).add(std::int64_t{0}).add(std::int64_t{0});
  for (int i = 0; i < 4; ++i) params.add(ArrayText{});
  return params;
}

}  // namespace

const Statement& completion_statement(const Statements& statements, Keep keep) {
  return keep == Keep::yes ? statements.complete : statements.complete_and_delete;
}

Params completion_params(std::span<const FinishedTask> tasks, Keep keep) {
  Params params;
  add_keys(params, tasks, [](const FinishedTask& task) { return task.key; });
  if (keep == Keep::no) return params;
  ArrayText results(tasks.size() * 5);
  for (const FinishedTask& task : tasks) {
    if (task.result.empty()) {
      results.add_null();
    } else {
      results.add(task.result);
    }
  }
  params.add(std::move(results));
  return params;
}

SmallCalls::SmallCalls(ConnectionPool& pool, Leasing& leasing, const Statements& statements,
                       std::size_t connections)
    : pool_(pool),
      leasing_(leasing),
      statements_(statements),
      calls_(
          most_under_way(connections),
          [this](auto chosen, const Call& next) { return may_go_together(chosen, next); },
          [this](auto calls) { run(calls); }) {}

std::vector<LeasedTask> SmallCalls::lease(const LeaseRequest& request) {
  if (request.limit >= small) return leasing_.lease(request);
  Call call = LeaseCall{request, {}, {}};
  calls_.submit(call);
  auto& lease = std::get<LeaseCall>(call);
  if (lease.error) std::rethrow_exception(lease.error);
  return std::move(lease.tasks);
}

std::vector<TaskId> SmallCalls::complete(std::span<const FinishedTask> tasks, Keep keep) {
  if (tasks.size() >= small) return complete_alone(tasks, keep);
  Call call = CompleteCall{tasks, keep, {}};
  calls_.submit(call);
  auto& completion = std::get<CompleteCall>(call);
  if (completion.shared_statement && completion.accepted.size() < tasks.size()) {
    complete_what_was_left_out(completion);
  }
  return std::move(completion.accepted);
}

std::vector<TaskId> SmallCalls::complete_alone(std::span<const FinishedTask> tasks, Keep keep) {
  return to_ids(pool_.run(completion_statement(statements_, keep), completion_params(tasks, keep)));
}

/// Either the lease is no longer the caller's, or somebody had locked the row. This time we wait.
void SmallCalls::complete_what_was_left_out(CompleteCall& call) {
  std::vector<FinishedTask> left_out;
  std::copy_if(call.tasks.begin(), call.tasks.end(), std::back_inserter(left_out),
               [&](const FinishedTask& task) {
                 return std::find(call.accepted.begin(), call.accepted.end(), task.key.id) ==
                        call.accepted.end();
               });
  try {
    const auto accepted = complete_alone(left_out, call.keep);
    call.accepted.insert(call.accepted.end(), accepted.begin(), accepted.end());
  } catch (const Error& error) {
    if (call.accepted.empty()) throw;
    throw OutcomeUnknown(error.what());  // the others are completed
  }
}

template <typename Kind>
std::vector<Kind*> SmallCalls::only(std::span<Call* const> calls) {
  std::vector<Kind*> found;
  for (Call* call : calls) {
    if (auto* one = std::get_if<Kind>(call)) found.push_back(one);
  }
  return found;
}

bool SmallCalls::may_go_together(std::span<Call* const> chosen, const Call& next) {
  if (chosen.size() >= small) return false;
  const auto leases = only<LeaseCall>(chosen);
  const auto completions = only<CompleteCall>(chosen);
  if (const auto* lease = std::get_if<LeaseCall>(&next)) {
    if (leases.empty()) return leasing_.is_quick(lease->request);
    const LeaseRequest& first = leases.front()->request;
    return first.worker == lease->request.worker && first.duration == lease->request.duration &&
           first.types == lease->request.types;
  }
  // Its rows stay locked until the lease is done, and renewals would wait for that.
  if (completions.empty()) return leasing_.is_quick(leases.front()->request);
  const auto& completion = std::get<CompleteCall>(next);
  // The answer names ids, so two versions of one task could not be told apart.
  const auto fits = [&](const CompleteCall* other) {
    return other->keep == completion.keep &&
           std::none_of(other->tasks.begin(), other->tasks.end(), [&](const auto& task) {
             return std::any_of(completion.tasks.begin(), completion.tasks.end(),
                                [&](const auto& mine) { return mine.key.id == task.key.id; });
           });
  };
  return std::all_of(completions.begin(), completions.end(), fits);
}

/// One statement for all calls. If there are several, it must not wait for a row that somebody has
/// locked: all of them would wait for it.
void SmallCalls::run(std::span<Call* const> calls) {
  const auto leases = only<LeaseCall>(calls);
  const auto completions = only<CompleteCall>(calls);
  if (completions.empty()) {
    share_out(leasing_.lease(sum_of(leases)), leases);
    return;
  }
  const Keep keep = completions.front()->keep;
  const auto finished = tasks_of(completions);
  if (calls.size() == 1) {
    share_out(complete_alone(finished, keep), completions);
    return;
  }
  const Statement& statement =
      keep == Keep::yes ? statements_.lease_and_complete : statements_.lease_and_delete;
  if (leases.empty()) {
    Params params = no_lease();
    params.add_all(completion_params(finished, keep));
    share_out(to_ids(pool_.run(statement, params)), completions);
  } else {
    Leasing::Companion companion{statement, completion_params(finished, keep), {}, {}};
    auto leased = leasing_.lease(sum_of(leases), &companion);
    share_out(std::move(leased), leases);
    for (LeaseCall* call : leases) call->error = companion.error;
    share_out(std::move(companion.accepted), completions);
  }
  for (CompleteCall* call : completions) call->shared_statement = true;
}

/// One request for all, which differ only in their limits.
LeaseRequest SmallCalls::sum_of(std::span<LeaseCall* const> calls) {
  LeaseRequest request = calls.front()->request;
  request.limit = 0;
  for (const LeaseCall* call : calls) request.limit += call->request.limit;
  return request;
}

/// The calls are served in the order in which they came.
void SmallCalls::share_out(std::vector<LeasedTask> tasks, std::span<LeaseCall* const> calls) {
  auto next = std::make_move_iterator(tasks.begin());
  const auto end = std::make_move_iterator(tasks.end());
  for (LeaseCall* call : calls) {
    const auto share = std::min<std::ptrdiff_t>(std::ptrdiff_t(call->request.limit), end - next);
    call->tasks.assign(next, next + share);
    next += share;
  }
}

/// In order of id, as the statements want them.
std::vector<FinishedTask> SmallCalls::tasks_of(std::span<CompleteCall* const> calls) {
  std::vector<FinishedTask> all;
  for (const CompleteCall* call : calls) {
    all.insert(all.end(), call->tasks.begin(), call->tasks.end());
  }
  std::sort(all.begin(), all.end(),
            [](const FinishedTask& a, const FinishedTask& b) { return a.key.id < b.key.id; });
  return all;
}

void SmallCalls::share_out(std::vector<TaskId> accepted, std::span<CompleteCall* const> calls) {
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
