#include "postgres/claims.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "leasehold/errors.hpp"
#include "postgres/rows.hpp"
#include "sql_queries.hpp"

namespace leasehold::inline v0::postgres {
namespace {

ClaimPlace place_of(const LeasedTask& task) {
  return {-task.priority, task.run_at_us, task.key.id.value};
}

}  // namespace

/// One call of lease(), which takes one statement, or a few.
struct Claims::Round {
  const LeaseRequest& request;
  std::vector<LeasedTask> tasks;
  std::vector<std::string> with_more;  ///< types of which the last statement leased all it might
  std::set<std::string> with_floor;    ///< types that were not looked for from the head

  std::size_t missing() const { return request.limit - tasks.size(); }
};

Claims::Claims(ConnectionPool& pool, const std::string& schema)
    : pool_(pool), statement_(sql::lease, schema, Plan::kept) {}

std::vector<LeasedTask> Claims::lease(const LeaseRequest& request, Companion* companion) {
  // Another type goes first each time: a limit smaller than the number of types is fair too.
  std::vector<std::string> types = request.types;
  const auto first = std::ptrdiff_t(turns_.next(types));
  std::rotate(types.begin(), types.begin() + first, types.end());

  Round round{request, {}, {}, {}};
  const std::size_t share = (request.limit + types.size() - 1) / types.size();
  run(round, types, share, From::floor, companion);
  try {
    run_for_the_rest(round);
  } catch (const Error&) {
    // What was leased before would wait out its lease and count a crash. Who is in trouble hears of
    // it with the next call.
    if (round.tasks.empty() && !companion) throw;
    if (round.tasks.empty()) companion->error = std::current_exception();
  }
  std::sort(round.tasks.begin(), round.tasks.end(),
            [](const auto& a, const auto& b) { return place_of(a) < place_of(b); });
  return std::move(round.tasks);
}

bool Claims::is_quick(const LeaseRequest& request) {
  return std::all_of(request.types.begin(), request.types.end(),
                     [&](const auto& type) { return floors_.full_scan_is_cheap(type); });
}

void Claims::run_for_the_rest(Round& round) {
  // What some types did not use goes to those that have more.
  if (round.missing() > 0 && round.request.types.size() > 1 && !round.with_more.empty()) {
    const auto hungry = std::exchange(round.with_more, {});
    run(round, hungry, round.missing(), From::floor);
  }
  // Perhaps something came back to a place before the floors.
  if (round.missing() > 0 && !round.with_floor.empty()) {
    std::vector<std::string> again(round.with_floor.begin(), round.with_floor.end());
    std::erase_if(again, [&](const auto& type) { return !floors_.full_scan_is_cheap(type); });
    if (!again.empty()) run(round, again, round.missing(), From::head);
  }
}

void Claims::run(Round& round, std::span<const std::string> types, std::size_t share, From from,
                 Companion* companion) {
  const auto sent = ClaimFloors::Clock::now();
  ArrayText names;
  ArrayText ranks;
  ArrayText run_ats;
  ArrayText ids;
  std::map<std::string_view, ClaimFloors::Scan> scans;
  for (const std::string& type : types) {
    const ClaimPlace floor = from == From::floor ? floors_.floor_of(type, sent) : ClaimFloors::none;
    names.add(type);
    ranks.add(floor.rank);
    run_ats.add(floor.run_at_us);
    ids.add(floor.id);
    scans[type].used = floor;
  }
  Params params;
  params.add(std::string_view(round.request.worker))
      .add(round.request.duration.count())
      .add(static_cast<std::int64_t>(share))
      .add(static_cast<std::int64_t>(round.missing()))
      .add(std::move(names))
      .add(std::move(ranks))
      .add(std::move(run_ats))
      .add(std::move(ids));
  if (companion) params.add_all(companion->params);
  const pqxx::result reply = pool_.run(companion ? companion->statement : statement_, params);
  const auto now = ClaimFloors::Clock::now();

  std::map<std::string_view, std::size_t> leased;
  for (const auto& row : reply) {
    if (companion && was_completed(row)) {
      companion->accepted.push_back(to_id(row));
      continue;
    }
    const LeasedTask& task = round.tasks.emplace_back(to_leased_task(row));
    const auto scan = scans.find(task.type);
    scan->second.last = scan->second.last == ClaimFloors::none
                            ? place_of(task)
                            : std::max(scan->second.last, place_of(task));
    ++leased[scan->first];
  }
  const bool full = round.missing() == 0;
  for (const std::string& type : types) {
    ClaimFloors::Scan& scan = scans[type];
    if (full && leased[type] == 0) {  // its turn did not come: nothing was learnt
      if (scan.used == ClaimFloors::none) floors_.forget(type);  // the full scan is still due
      continue;
    }
    scan.satisfied = leased[type] >= share || full;
    scan.took = now - sent;
    floors_.learn(type, scan, now);
    if (leased[type] >= share) round.with_more.push_back(type);
    if (scan.used != ClaimFloors::none) round.with_floor.insert(type);
  }
}

}  // namespace leasehold::inline v0::postgres
