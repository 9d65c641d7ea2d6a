#include "status_page.hpp"

#include <nlohmann/json.hpp>

#include "common/iso_time.hpp"
#include "leasehold/version.hpp"

namespace leasehold::worker {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

double seconds_between(SteadyTime from, SteadyTime to) {
  return in_seconds(std::chrono::duration_cast<milliseconds>(to - from));
}
ordered_json seconds_or_null(const std::optional<milliseconds>& time) {
  return time ? ordered_json(in_seconds(*time)) : ordered_json();
}

ordered_json as_json(const std::optional<Problem>& problem) {
  if (!problem) return nullptr;
  return {{"error", problem->error}, {"since", common::iso_time(problem->since.system)}};
}

ordered_json as_json(const std::optional<SnapshotHolder>& holder) {
  if (!holder) return nullptr;
  return {{"kind", to_string(holder->kind)},
          {"pid", holder->pid},
          {"name", holder->name},
          {"user", holder->user},
          {"age_s", seconds_or_null(holder->age)},
          {"transactions", holder->transactions}};
}

ordered_json as_json(const std::optional<Measured>& measured, SteadyTime now) {
  if (!measured) return nullptr;
  ordered_json tasks = ordered_json::object();
  for (const auto& [type, by_state] : measured->tasks) {
    for (const auto& [state, number] : by_state) tasks[type][to_string(state)] = number;
  }
  const QueueHealth& health = measured->health;
  return {{"age_s", seconds_between(measured->at.steady, now)},
          {"tasks", tasks},
          {"tasks_cut_off", measured->cut_off},
          {"oldest_ready_s", seconds_or_null(health.oldest_ready)},
          {"oldest_expired_lease_s", seconds_or_null(health.oldest_expired)},
          {"recovered", {{"requeued", health.recovered_requeued}, {"dead", health.recovered_dead}}},
          {"live_tuples", health.live_rows},
          {"dead_tuples", health.dead_rows},
          {"oldest_snapshot", as_json(health.oldest_snapshot)}};
}

ordered_json last_round_as_json(const QueueState& state, SteadyTime now) {
  if (!state.last_completed) return nullptr;
  return {{"ended", common::iso_time(state.last_completed->system)},
          {"age_s", seconds_between(state.last_completed->steady, now)},
          {"duration_s", in_seconds(state.last_duration)}};
}

ordered_json as_json(const QueueState& state, SteadyTime now) {
  const auto not_ready = state.not_ready(now);
  ordered_json removed;
  for (const auto& [end, number] : state.removed) removed[to_string(end)] = number;
  return {{"name", state.config.name},
          {"database", state.config.where},
          {"schema", state.config.schema},
          {"round_interval_s", in_seconds(state.config.round_interval)},
          {"ready", !not_ready},
          {"not_ready", not_ready ? ordered_json(*not_ready) : ordered_json()},
          {"problem", as_json(state.problem)},
          {"rounds", {{"completed", state.rounds_completed}, {"failed", state.rounds_failed}}},
          {"round_under_way_s",
           state.under_way_since ? ordered_json(seconds_between(state.under_way_since->steady, now))
                                 : ordered_json()},
          {"last_round", last_round_as_json(state, now)},
          {"recovered", {{"requeued", state.requeued}, {"dead", state.dead}}},
          {"removed", removed},
          {"measured", as_json(state.measured, now)}};
}

ordered_json as_json(const RedisState& state, SteadyTime now) {
  ordered_json json{
      {"redis", state.where},
      {"problem", as_json(state.problem)},
      {"scans", {{"completed", state.scans_completed}, {"failed", state.scans_failed}}}};
  if (state.last_completed) {
    json["age_s"] = seconds_between(state.last_completed->steady, now);
    json["held"] = state.held;
    json["stale"] = state.stale;
  }
  return json;
}

}  // namespace

std::string render_status(const DaemonStatus& status) {
  const auto now = steady_clock::now();
  ordered_json queues = ordered_json::array();
  for (const auto& queue : status.queues()) queues.push_back(as_json(queue->state(), now));
  const auto redis = status.redis();
  const ordered_json json{
      {"version", version()},
      {"started", common::iso_time(status.started.system)},
      {"uptime_s", seconds_between(status.started.steady, now)},
      {"ready", render_not_ready(status).empty()},
      {"config_reloads",
       {{"accepted", status.reloads_accepted()}, {"refused", status.reloads_refused()}}},
      {"queues", queues},
      {"locks", redis ? as_json(redis->state(), now) : ordered_json()},
  };
  // The error message of a server may be in any encoding.
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string render_not_ready(const DaemonStatus& status) {
  const auto now = steady_clock::now();
  std::string text;
  for (const auto& queue : status.queues()) {
    if (const auto reason = queue->state().not_ready(now)) {
      text += "queue " + queue->name() + ": " + *reason + "\n";
    }
  }
  return text;
}

}  // namespace leasehold::worker
