#include "postgres/leasing.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "leasehold/errors.hpp"
#include "postgres/rows.hpp"

namespace leasehold::inline v0::postgres {
namespace {

LeasePlace place_of(const LeasedTask& task) {
  return {-task.priority, task.run_at_us, task.key.id.value};
}

}  // namespace

/// One call of lease(), which takes one statement or a few.
struct Leasing::Call {
  const LeaseRequest& request;
  std::vector<LeasedTask> tasks;
  std::vector<std::string> with_more;  ///< types that the last statement leased in full
  std::set<std::string> with_floor;    ///< types that were not searched from the head

  std::size_t missing() const { return request.limit - tasks.size(); }
};

Leasing::Leasing(ConnectionPool& pool, const Statement& statement)
    : pool_(pool), statement_(statement) {}

std::vector<LeasedTask> Leasing::lease(const LeaseRequest& request, Companion* companion) {
  // Another type goes first each time, so that a limit below the number of types is fair too.
  std::vector<std::string> types = request.types;
  const auto first = std::ptrdiff_t(turns_.next(types));
  std::rotate(types.begin(), types.begin() + first, types.end());

  Call call{request, {}, {}, {}};
  const std::size_t share = (request.limit + types.size() - 1) / types.size();
  run(call, types, share, From::floor, companion);
  try {
    run_for_the_rest(call);
  } catch (const Error&) {
    // The tasks that were leased before must be returned: they would wait for their leases to
    // expire and count a crash. If the trouble lasts, the next call reports it.
    if (call.tasks.empty() && !companion) throw;
    if (call.tasks.empty()) companion->error = std::current_exception();
  }
  std::sort(call.tasks.begin(), call.tasks.end(),
            [](const auto& a, const auto& b) { return place_of(a) < place_of(b); });
  return std::move(call.tasks);
}

bool Leasing::is_quick(const LeaseRequest& request) {
  return std::all_of(request.types.begin(), request.types.end(),
                     [&](const auto& type) { return floors_.full_scan_is_cheap(type); });
}

void Leasing::run_for_the_rest(Call& call) {
  // What some types did not use goes to those that have more tasks.
  if (call.missing() > 0 && call.request.types.size() > 1 && !call.with_more.empty()) {
    const auto hungry = std::exchange(call.with_more, {});
    run(call, hungry, call.missing(), From::floor);
  }
  // Perhaps tasks came back to a place before the floors.
  if (call.missing() > 0 && !call.with_floor.empty()) {
    std::vector<std::string> again(call.with_floor.begin(), call.with_floor.end());
    std::erase_if(again, [&](const auto& type) { return !floors_.full_scan_is_cheap(type); });
    if (!again.empty()) run(call, again, call.missing(), From::head);
  }
}

void Leasing::run(Call& call, std::span<const std::string> types, std::size_t share, From from,
                  Companion* companion) {
  const auto sent = LeaseFloors::Clock::now();
  ArrayText names;
  ArrayText ranks;
  ArrayText run_ats;
  ArrayText ids;
  std::map<std::string_view, LeaseFloors::Scan> scans;
  for (const std::string& type : types) {
    const LeasePlace floor = from == From::floor ? floors_.floor_of(type, sent) : LeaseFloors::none;
    names.add(type);
    ranks.add(floor.rank);
    run_ats.add(floor.run_at_us);
    ids.add(floor.id);
    scans[type].used = floor;
  }
  Params params;
  params.add(std::string_view(call.request.worker))
      .add(call.request.duration.count())
      .add(static_cast<std::int64_t>(share))
      .add(static_cast<std::int64_t>(call.missing()))
      .add(std::move(names))
      .add(std::move(ranks))
      .add(std::move(run_ats))
      .add(std::move(ids));
  if (companion) params.add_all(companion->params);
  const pqxx::result reply = pool_.run(companion ? companion->statement : statement_, params);
  const auto now = LeaseFloors::Clock::now();

  std::map<std::string_view, std::size_t> leased;
  for (const auto& row : reply) {
    if (companion && was_completed(row)) {
      companion->accepted.push_back(to_id(row));
      continue;
    }
    const LeasedTask& task = call.tasks.emplace_back(to_leased_task(row));
    const auto scan = scans.find(task.type);
    scan->second.last = scan->second.last == LeaseFloors::none
                            ? place_of(task)
                            : std::max(scan->second.last, place_of(task));
    ++leased[scan->first];
  }
  const bool full = call.missing() == 0;
  for (const std::string& type : types) {
    LeaseFloors::Scan& scan = scans[type];
    if (full && leased[type] == 0) {  // its turn did not come: nothing was learned
      if (scan.used == LeaseFloors::none) floors_.forget(type);  // the full scan is still due
      continue;
    }
    scan.satisfied = leased[type] >= share || full;
    scan.took = now - sent;
    floors_.learn(type, scan, now);
    if (leased[type] >= share) call.with_more.push_back(type);
    if (scan.used != LeaseFloors::none) call.with_floor.insert(type);
  }
}

}  // namespace leasehold::inline v0::postgres
