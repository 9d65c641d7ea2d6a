#include "records.hpp"

#include "common/iso_time.hpp"
#include "support/json_depth.hpp"
#include "text.hpp"

namespace leasehold::cli {
namespace {

using common::iso_time;
using nlohmann::ordered_json;

ordered_json json_or_null(const std::optional<std::string>& text) {
  if (!text || text->empty()) return nullptr;
  // Other programs can write to the store too, and JSON is copied and printed recursively.
  if (json_depth(*text) > deepest_json) return *text;
  ordered_json parsed = ordered_json::parse(*text, nullptr, false);
  return parsed.is_discarded() ? ordered_json(*text) : parsed;
}

ordered_json text_or_null(const std::string& text) {
  return text.empty() ? ordered_json() : ordered_json(text);
}

ordered_json time_or_null(const std::optional<std::chrono::system_clock::time_point>& time) {
  return time ? ordered_json(iso_time(*time)) : ordered_json();
}

}  // namespace

ordered_json as_json(const TaskRecord& task) {
  return {{"id", task.id.value},
          {"version", task.version.value},
          {"type", task.type},
          {"state", to_string(task.state)},
          {"priority", task.priority},
          {"payload", json_or_null(task.payload)},
          {"progress", json_or_null(task.progress)},
          {"result", json_or_null(task.result)},
          {"run_at", iso_time(task.run_at)},
          {"leased_by", text_or_null(task.leased_by)},
          {"leased_at", time_or_null(task.leased_at)},
          {"lease_expiry", time_or_null(task.lease_expiry)},
          {"attempts", task.attempts},
          {"max_attempts", task.max_attempts},
          {"crash_count", task.crash_count},
          {"unique_key", text_or_null(task.unique_key)},
          {"last_error", text_or_null(task.last_error)},
          {"created_at", iso_time(task.created_at)},
          {"updated_at", iso_time(task.updated_at)},
          {"finished_at", time_or_null(task.finished_at)}};
}

ordered_json as_json(const LockRecord& lock) {
  ordered_json json{{"name", lock.name},
                    {"kind", to_string(lock.kind)},
                    {"state", to_string(lock.state)},
                    {"token", lock.token.value},
                    {"holder_count", lock.holder_count},
                    {"waiter_count", lock.waiter_count}};
  if (lock.holders.empty() && lock.kind == LockKind::exclusive) {
    json.update(ordered_json{{"runner", text_or_null(lock.runner)},
                             {"pid", lock.pid},
                             {"host", text_or_null(lock.host)},
                             {"platform", text_or_null(lock.platform)},
                             {"metadata", lock.metadata},
                             {"acquired_at", iso_time(lock.acquired_at)},
                             {"heartbeat_at", iso_time(lock.heartbeat_at)},
                             {"renewals", lock.renewals},
                             {"ttl_ms", lock.ttl.count()},
                             {"age_ms", lock.age.count()},
                             {"heartbeat_age_ms", lock.heartbeat_age.count()},
                             {"remaining_ms", lock.remaining.count()}});
  }
  ordered_json holders = ordered_json::array();
  for (const LockRecord& holder : lock.holders) {
    holders.push_back({{"runner", text_or_null(holder.runner)},
                       {"pid", holder.pid},
                       {"host", text_or_null(holder.host)},
                       {"metadata", holder.metadata},
                       {"acquired_at", iso_time(holder.acquired_at)},
                       {"remaining_ms", holder.remaining.count()}});
  }
  ordered_json waiters = ordered_json::array();
  for (const LockWaiter& waiter : lock.waiters) {
    waiters.push_back({{"runner", waiter.runner},
                       {"pid", waiter.pid},
                       {"host", waiter.host},
                       {"kind", to_string(waiter.kind)},
                       {"priority", waiter.priority},
                       {"since", iso_time(waiter.since)}});
  }
  json["holders"] = holders;
  json["waiters"] = waiters;
  return json;
}

Colour colour_of(TaskState state) {
  switch (state) {
    case TaskState::leased:
      return Colour::blue;
    case TaskState::completed:
      return Colour::green;
    case TaskState::dead:
      return Colour::red;
    case TaskState::cancelled:
      return Colour::dim;
    case TaskState::pending:
      return Colour::plain;
  }
  return Colour::plain;
}

Colour colour_of(LockState state) {
  return state == LockState::stale ? Colour::yellow : Colour::green;
}

const char* to_string(LockKind kind) { return kind == LockKind::shared ? "shared" : "exclusive"; }

std::string runner_of(const LockRecord& holder) {
  std::string text = holder.runner.empty() ? "unknown" : holder.runner;
  if (holder.pid != 0) text += " (pid " + std::to_string(holder.pid) + " on " + holder.host + ")";
  return text;
}

std::string holder_of(const LockRecord& lock) {
  if (lock.kind == LockKind::exclusive) return runner_of(lock);
  return with_commas(lock.holder_count) + (lock.holder_count == 1 ? " holder" : " holders");
}

}  // namespace leasehold::cli
