#include <leasehold/lock_client.hpp>
#include <mutex>
#include <stdexcept>

#include "duel.hpp"
#include "embedded_cases/cases.hpp"

namespace leasehold::bench {
namespace {

constexpr std::size_t locks_a_thread = 16;

std::vector<std::string> names_for(std::size_t thread) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < locks_a_thread; ++i) {
    names.push_back("bench:" + std::to_string(thread) + ":" + std::to_string(i));
  }
  return names;
}

/// The reference: one connection that the threads share in turns, as ours do.
class RawLocks {
 public:
  explicit RawLocks(const std::string& path)
      : database_(path, RawSqlite::Sync::normal), table_(make_table(database_)) {}

  void acquire_and_release(std::string_view name) {
    constexpr std::string_view owner = "0123456789abcdef0123456789abcdef";
    if (acquire(name, owner) < 1) throw std::runtime_error("raw lock not acquired");
    const std::lock_guard guard(mutex_);
    release_.run({name, owner});
    if (database_.changes() != 1) throw std::runtime_error("raw lock not released");
  }

 private:
  /// Returns the token, because the holder must know it. One statement with RETURNING would take
  /// longer than these four.
  std::int64_t acquire(std::string_view name, std::string_view owner) {
    const std::lock_guard guard(mutex_);
    begin_.run();
    acquire_.run({name, owner, 30'000, 0});
    const std::int64_t token = database_.changes() == 1 ? token_.run({name}) : -1;
    commit_.run();
    return token;
  }

  static int make_table(RawSqlite& database) {
    database.execute(raw_sqlite_sql("lock_table.sql"));
    return 0;
  }

  std::mutex mutex_;
  RawSqlite database_;
  int table_;  // made before anything is prepared
  RawSqlite::Statement begin_{database_, "BEGIN IMMEDIATE"};
  RawSqlite::Statement commit_{database_, "COMMIT"};
  RawSqlite::Statement acquire_{database_, raw_sqlite_sql("lock_acquire.sql")};
  RawSqlite::Statement token_{database_, raw_sqlite_sql("lock_token.sql")};
  RawSqlite::Statement release_{database_, raw_sqlite_sql("lock_release.sql")};
};

}  // namespace

Result embedded_locks(const EmbeddedBench& bench, const std::string& name) {
  const EmbeddedPlace place(bench.where);
  LockClient client(place.uri());
  RawLocks raw(place.raw_path());
  std::vector<Step> ours;
  std::vector<Step> reference;
  for (std::size_t thread = 0; thread < bench.threads; ++thread) {
    ours.push_back([&client, names = names_for(thread), next = std::size_t{0}]() mutable {
      auto lock = client.acquire(names[next++ % names.size()]);
      if (!lock || lock->release() != Release::done) throw std::runtime_error("lock not released");
      return std::size_t{1};
    });
    reference.push_back([&raw, names = names_for(thread), next = std::size_t{0}]() mutable {
      raw.acquire_and_release(names[next++ % names.size()]);
      return std::size_t{1};
    });
  }
  Crew our_crew(std::move(ours));
  Crew raw_crew(std::move(reference));
  const Duel duel = fight(
      bench.options, name, bench.progress, [&](auto slice) { return our_crew.run(slice); },
      [&](auto slice) { return raw_crew.run(slice); });
  return {.name = name,
          .unit = "acquire+release pairs/s",
          .ours = duel.ours.rate(),
          .reference = duel.reference.rate(),
          .reference_name = "sqlite3 by hand, bench/sql/sqlite/lock_*.sql",
          .ratio = duel.ratio,
          .target = bench.where == Where::memory ? 0.7 : embedded_target};
}

}  // namespace leasehold::bench
