#include <leasehold/task_queue.hpp>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "duel.hpp"
#include "embedded_cases/cases.hpp"

namespace leasehold::bench {
namespace {

/// The reference: one connection that the threads share in turns, as ours do.
class RawQueue {
 public:
  explicit RawQueue(const std::string& path)
      : database_(path, RawSqlite::Sync::full), table_(make_table(database_)) {}

  void fill(std::size_t depth) {
    const std::lock_guard guard(mutex_);
    fill_.run({static_cast<std::int64_t>(depth)});
  }
  bool is_low(std::size_t depth) {
    const std::lock_guard guard(mutex_);
    return static_cast<std::size_t>(count_.run()) < depth;
  }

  std::size_t drain(std::size_t batch) {
    const std::vector<Leased> tasks = lease(batch);
    complete(tasks);
    return tasks.size();
  }

 private:
  struct Leased {
    std::int64_t id;
    std::int64_t version;
    std::string payload;
  };

  static int make_table(RawSqlite& database) {
    database.execute(raw_sqlite_sql("task_table.sql"));
    return 0;
  }

  /// One statement, a transaction by itself.
  std::vector<Leased> lease(std::size_t batch) {
    std::vector<Leased> tasks;
    tasks.reserve(batch);
    const std::lock_guard guard(mutex_);
    lease_.run({std::string_view("worker"), 1'000, static_cast<std::int64_t>(batch)},
               [&](sqlite3_stmt* row) {
                 tasks.push_back({sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1),
                                  reinterpret_cast<const char*>(sqlite3_column_text(row, 2))});
               });
    if (tasks.size() != batch) throw std::runtime_error("the raw table ran dry");
    return tasks;
  }

  void complete(const std::vector<Leased>& tasks) {
    const std::lock_guard guard(mutex_);
    if (tasks.size() > 1) begin_.run();
    for (const Leased& task : tasks) {
      complete_.run({task.id, task.version});
      if (database_.changes() != 1) throw std::runtime_error("a raw lease was lost");
    }
    if (tasks.size() > 1) commit_.run();
  }

  std::mutex mutex_;
  RawSqlite database_;
  int table_;  // made before anything is prepared
  RawSqlite::Statement begin_{database_, "BEGIN IMMEDIATE"};
  RawSqlite::Statement commit_{database_, "COMMIT"};
  RawSqlite::Statement count_{database_, "SELECT count(*) FROM tasks"};
  RawSqlite::Statement fill_{database_, raw_sqlite_sql("task_fill.sql")};
  RawSqlite::Statement lease_{database_, raw_sqlite_sql("task_lease.sql")};
  RawSqlite::Statement complete_{database_, raw_sqlite_sql("task_complete.sql")};
};

}  // namespace

Result embedded_drain(const EmbeddedBench& bench, const std::string& name, std::size_t batch) {
  // More than a turn drains.
  const std::size_t depth = batch == 1 ? 60'000 : 200'000;
  const EmbeddedPlace place(bench.where);
  TaskQueue queue(place.uri(), {.retention = Retention::delete_at_once()});
  RawQueue raw(place.raw_path());

  const auto fill_ours = [&] {
    const auto counts = queue.counts(depth);
    const std::size_t there = counts.empty() ? 0 : counts.front().number;
    for (std::size_t added = there; added < depth;) {
      std::vector<NewTask> tasks;
      for (std::size_t i = 0; i < 10'000; ++i, ++added) {
        tasks.push_back({.type = "bench", .payload = "{\"id\":" + std::to_string(added) + "}"});
      }
      queue.enqueue(tasks);
    }
  };
  Crew ours(std::vector<Step>(bench.threads,
                              [&queue, request = LeaseRequest{.types = {"bench"}, .limit = batch}] {
                                auto leases = queue.lease(request);
                                if (leases.empty()) throw std::runtime_error("the table ran dry");
                                if (!queue.complete(leases).empty())
                                  throw std::runtime_error("a lease was lost");
                                return leases.size();
                              }));
  Crew reference(std::vector<Step>(bench.threads, [&raw, batch] { return raw.drain(batch); }));
  const Duel duel = fight(
      bench.options, name, bench.progress,
      [&](auto slice) {
        fill_ours();
        return ours.run(slice);
      },
      [&](auto slice) {
        if (raw.is_low(depth)) raw.fill(depth);
        return reference.run(slice);
      });
  return {.name = name,
          .unit = "tasks leased and completed/s",
          .ours = duel.ours.rate(),
          .reference = duel.reference.rate(),
          .reference_name = "sqlite3 by hand, bench/sql/sqlite/task_*.sql",
          .ratio = duel.ratio,
          .target = embedded_target};
}

}  // namespace leasehold::bench
