#include "postgres/params.hpp"
#include "postgres/postgres_errors.hpp"
#include "postgres/postgres_task_store.hpp"

namespace leasehold::inline v0::postgres {

using std::chrono::milliseconds;

namespace {
constexpr milliseconds one_day = std::chrono::hours{24};
}  // namespace

Update PostgresTaskStore::update(TaskId id, TaskVersion expected, const TaskChanges& changes) {
  Params params;
  params.add(id.value).add(expected.value).add(changes.payload).add(changes.priority);
  params.add(changes.run_at ? std::optional(us_since_1970(*changes.run_at)) : std::nullopt);
  params.add(changes.progress);
  const auto reply = pool_.run(statements_.update, params);
  if (!reply.empty()) {
    leasing_.forget(reply[0][1].c_str());
    return {Update::Outcome::updated, TaskVersion{reply[0][0].as<std::int64_t>()}};
  }
  const auto stored = get(id);
  if (!stored) return {Update::Outcome::not_found, {}};
  const TaskVersion version = stored->record.version;
  if (version == expected && stored->record.state == TaskState::leased) {
    return {Update::Outcome::leased, expected};
  }
  return {Update::Outcome::conflict, version};
}

CancelOutcome PostgresTaskStore::cancel(TaskId id) {
  Params params;
  params.add(id.value);
  const auto reply = pool_.run(statements_.cancel, params);
  if (!reply[0][1].as<bool>()) return CancelOutcome::not_found;
  if (reply[0][0].is_null()) return CancelOutcome::finished;
  return to_state(reply[0][0].c_str()) == TaskState::leased ? CancelOutcome::was_leased
                                                            : CancelOutcome::was_pending;
}

RetryOutcome PostgresTaskStore::retry(TaskId id) {
  Params params;
  params.add(id.value).add(channel_);
  try {
    const auto reply = pool_.run(statements_.retry, params);
    if (reply[0][0].as<bool>()) return RetryOutcome::requeued;
    return reply[0][1].as<bool>() ? RetryOutcome::not_dead : RetryOutcome::not_found;
  } catch (const SqlRefused& refused) {
    if (refused.sqlstate() == sqlstate::unique_violation) return RetryOutcome::key_taken;
    throw;
  }
}

Removed PostgresTaskStore::remove_finished(TaskState state, milliseconds age, std::size_t chunk) {
  const auto number = [this](const Statement& statement, const Params& params) {
    return pool_.run(statement, params)[0][0].as<std::uint64_t>();
  };
  if (state != TaskState::completed) {
    Params params;
    params.add(std::string_view(to_string(state)))
        .add(age.count())
        .add(static_cast<std::int64_t>(chunk));
    const auto removed = number(statements_.remove_finished, params);
    return {removed, removed >= chunk};
  }
  std::uint64_t dropped = 0;
  const bool drops_days = pool_.run(statements_.may_drop_days, {})[0][0].as<bool>();
  if (drops_days) {
    Params days;
    days.add(age.count());
    dropped = number(statements_.drop_days, days);
  }
  // What is left of the last day is dropped with it, a day later at most. That costs nothing, where
  // deleting rows costs as much as adding them.
  if (!drops_days || age < one_day) {
    const auto removed = remove_completed(age, chunk);
    return {dropped + removed, removed >= chunk};
  }
  Params params;
  params.add(age.count()).add(static_cast<std::int64_t>(chunk));
  const auto removed = number(statements_.remove_stray, params);
  return {dropped + removed, removed >= chunk};
}

/// Deletes one chunk at most. Those that were added first are nearly always those that ended first,
/// so it begins with them, and stops where no row is old enough. In case that others are, it also
/// looks at some more rows, each time at the next ones.
std::uint64_t PostgresTaskStore::remove_completed(milliseconds age, std::size_t chunk) {
  TaskId first{0};
  const auto removed = remove_completed(age, chunk, chunk, first);
  const ThreadLock lock(removal_);
  return removed + remove_completed(age, chunk, chunk - removed, next_to_remove_);
}

/// Deletes up to `most`, and stops where no row has been old enough for some chunks. `after` says
/// where it begins and, in the end, where it has stopped.
std::uint64_t PostgresTaskStore::remove_completed(milliseconds age, std::size_t chunk,
                                                  std::size_t most, TaskId& after) {
  std::uint64_t removed = 0;
  while (removed < most) {
    Params params;
    params.add(age.count()).add(static_cast<std::int64_t>(most - removed)).add(after.value);
    params.add(static_cast<std::int64_t>(4 * chunk));
    const auto reply = pool_.run(statements_.remove_completed, params);
    const auto found = reply[0][0].as<std::uint64_t>();
    removed += found;
    if (removed >= most) break;  // there may be more of them here
    after = TaskId{reply[0][1].is_null() ? 0 : reply[0][1].as<std::int64_t>()};
    if (found == 0 || after.value == 0) break;
  }
  return removed;
}

}  // namespace leasehold::inline v0::postgres
