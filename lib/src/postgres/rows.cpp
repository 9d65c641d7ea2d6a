#include "postgres/rows.hpp"

#include <optional>
#include <stdexcept>

namespace leasehold::inline v0::postgres {
namespace {

using std::chrono::system_clock;

/// The fields of a row from the first to the last.
class Fields {
 public:
  explicit Fields(const pqxx::row& row, pqxx::row::size_type first = 0) : row_(row), at_(first) {}

  std::int64_t number() { return next().as<std::int64_t>(); }
  int small_number() { return next().as<int>(); }
  bool flag() { return next().as<bool>(); }
  int small_number_or(int otherwise) { return next().as<int>(otherwise); }
  std::string_view view() {
    const pqxx::field field = next();
    return {field.c_str(), field.size()};
  }
  /// Empty for null.
  std::string text() { return std::string(view()); }
  std::optional<std::string> optional_text() {
    const pqxx::field field = next();
    if (field.is_null()) return std::nullopt;
    return std::string(field.c_str(), field.size());
  }
  std::optional<std::chrono::milliseconds> optional_ms() {
    const pqxx::field field = next();
    if (field.is_null()) return std::nullopt;
    return std::chrono::milliseconds{field.as<std::int64_t>()};
  }
  system_clock::time_point time() {
    return system_clock::time_point{std::chrono::microseconds{number()}};
  }
  std::optional<system_clock::time_point> optional_time() {
    const pqxx::field field = next();
    if (field.is_null()) return std::nullopt;
    return system_clock::time_point{std::chrono::microseconds{field.as<std::int64_t>()}};
  }

 private:
  pqxx::field next() { return row_[at_++]; }

  const pqxx::row& row_;
  pqxx::row::size_type at_;
};

SnapshotHolder::Kind to_kind(std::string_view name) {
  using Kind = SnapshotHolder::Kind;
  for (const Kind kind : {Kind::transaction, Kind::prepared, Kind::replication}) {
    if (name == to_string(kind)) return kind;
  }
  throw std::logic_error("unknown kind of snapshot holder " + std::string(name));
}

}  // namespace

// Braced initialisers are evaluated from left to right: the fields come in the order of the
// columns.

LeasedTask to_leased_task(const pqxx::row& row) {
  Fields f(row);
  return {
      .key = {TaskId{f.number()}, TaskVersion{f.number()}, LeaseId{}},
      .type = f.text(),
      .priority = f.small_number(),
      .payload = f.text(),
      .progress = f.text(),
      .attempts = f.small_number(),
      .max_attempts = f.small_number(),
      .crash_count = f.small_number(),
      .run_at_us = f.number(),
      .started = f.flag(),
      .suspect = f.flag(),
  };
}

StoredTask to_stored_task(const pqxx::row& row) {
  Fields f(row);
  const TaskId id{f.number()};
  const TaskVersion version{f.number()};
  const LeaseId lease{f.number()};
  TaskRecord record{
      .id = id,
      .version = version,
      .type = f.text(),
      .state = to_state(f.view()),
      .priority = f.small_number(),
      .payload = f.text(),
      .progress = f.optional_text(),
      .result = f.optional_text(),
      .run_at = f.time(),
      .leased_by = f.text(),
      .leased_at = f.optional_time(),
      .lease_expiry = f.optional_time(),
      .attempts = f.small_number(),
      .max_attempts = f.small_number(),
      .crash_count = f.small_number(),
      .unique_key = f.text(),
      .last_error = f.text(),
      .created_at = f.time(),
      .updated_at = f.time(),
      .finished_at = f.optional_time(),
  };
  return {std::move(record), lease};
}

ExpiredLease to_expired(const pqxx::row& row) {
  const auto last = row.size() - 1;
  return {.leased_at_us = row[last].as<std::int64_t>(), .id = TaskId{row[0].as<std::int64_t>()}};
}

RecoveredTask to_recovered(const pqxx::row& row, int first_column) {
  Fields f(row, static_cast<pqxx::row::size_type>(first_column));
  return {
      .id = TaskId{f.number()},
      .type = f.text(),
      .state = to_state(f.view()),
      .worker = f.text(),
      .overdue = std::chrono::milliseconds{f.number()},
      .crash_count = f.small_number(),
  };
}

QueueHealth to_health(const pqxx::row& row) {
  Fields f(row);
  return {
      .oldest_ready = f.optional_ms(),
      .oldest_expired = f.optional_ms(),
      .live_rows = static_cast<std::uint64_t>(f.number()),
      .dead_rows = static_cast<std::uint64_t>(f.number()),
      .recovered_requeued = static_cast<std::uint64_t>(f.number()),
      .recovered_dead = static_cast<std::uint64_t>(f.number()),
      .oldest_snapshot = std::nullopt,
  };
}

SnapshotHolder to_snapshot_holder(const pqxx::row& row) {
  Fields f(row);
  return {
      .kind = to_kind(f.view()),
      .pid = f.small_number_or(0),
      .name = f.text(),
      .user = f.text(),
      .age = f.optional_ms(),
      .transactions = f.number(),
  };
}

std::optional<LeaseName> to_completed(const pqxx::row& row) {
  constexpr pqxx::row::size_type completed = 13;
  if (row.size() <= completed || row[completed].is_null()) return std::nullopt;
  return LeaseName{TaskId{row[0].as<std::int64_t>()}, LeaseId{row[completed].as<std::int64_t>()}};
}

bool is_refused_place(const pqxx::row& row) { return row[0].is_null(); }

bool was_cut_short(const pqxx::row& row) { return row[12].as<bool>(); }

LeaseName to_lease_name(const pqxx::row& row) {
  return {TaskId{row[0].as<std::int64_t>()}, LeaseId{row[1].as<std::int64_t>()}};
}

std::vector<LeaseName> to_lease_names(const pqxx::result& result) {
  std::vector<LeaseName> names;
  names.reserve(static_cast<std::size_t>(result.size()));
  for (const auto& row : result) names.push_back(to_lease_name(row));
  return names;
}

}  // namespace leasehold::inline v0::postgres
