#include "tasks/runtime/leaser.hpp"

#include <algorithm>
#include <unordered_map>

#include "support/sleep.hpp"

namespace leasehold::inline v0 {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t most_at_once = 10'000;  // what a LeaseRequest may ask for
// The most bytes of one reply, so that reading it takes little memory.
constexpr std::size_t most_bytes = 16 * 1024 * 1024;

}  // namespace

Leaser::Leaser(const WorkerContext& context, std::span<const TaskKind> kinds)
    : context_(context),
      kinds_(kinds),
      pace_(context.options.poll_min, context.options.poll_max),
      trouble_(milliseconds{100}, milliseconds{2'000}) {}

void Leaser::run(const std::stop_token& stop) {
  TaskBoard& board = context_.board;
  auto reason = LookPace::Reason::pause;
  while (board.wait_for_room(stop) && !stop.stop_requested()) {
    milliseconds pause{0};
    try {
      const Found found = lease_once();
      // Afterwards: what was leased is with the handlers by now.
      const bool recovered = context_.core.look_after() > 0;
      context_.outage.over();
      trouble_.reset();
      pace_.adapt(context_.core.fleet(), listening_);
      pace_.looked(reason,
                   found == Found::nothing ? LookPace::Found::nothing : LookPace::Found::something,
                   LookPace::Clock::now());
      time_to_rest_ = pace_.time_to_rest();
      reason = LookPace::Reason::pause;
      if (recovered || found == Found::all_it_asked_for) continue;
      pause = pace_.pause();
    } catch (const std::exception& error) {
      context_.outage.failed("lease", error);
      sleep_for(trouble_.next(), stop);  // announcements do not make the trouble pass
      reason = LookPace::Reason::pause;
      continue;
    }
    reason = board.wait_to_look(stop, pause, pace_);
  }
}

Leaser::Found Leaser::lease_once() {
  const TaskBoard::Room room = context_.board.room();
  if (room.places == 0) return Found::all_it_asked_for;
  std::vector<std::size_t> limited;
  std::size_t limit = room.places;
  for (const auto& [lane, its_room] : room.limited) {
    limited.push_back(lane);
    // Not more than the smallest room, so that no type can exceed its limit.
    limit = std::min(limit, its_room);
  }
  // If the same group always came second, it might never find a free place.
  limited_first_ = !limited_first_;
  const auto first =
      limited_first_ ? lease(limited, limit, room) : lease(room.open, room.places, room);
  const TaskBoard::Room left = context_.board.room();
  return std::max(first, limited_first_ ? lease(room.open, left.places, left)
                                        : lease(limited, std::min(limit, left.places), left));
}

Leaser::Found Leaser::lease(const std::vector<std::size_t>& lanes, std::size_t limit,
                            const TaskBoard::Room& room) {
  if (lanes.empty() || limit == 0) return Found::nothing;
  // What starts at once is not leased ahead: it needs no room in bytes.
  if (room.bytes == 0) limit = std::min(limit, room.idle);
  if (limit == 0) return Found::nothing;
  LeaseRequest request{
      .limit = std::min(limit, most_at_once),
      .duration = context_.options.lease,
      .worker = context_.name,
      .max_bytes = room.bytes == 0 ? most_bytes : std::min(room.bytes, most_bytes)};
  std::unordered_map<std::string_view, std::size_t> lane_of;
  for (const std::size_t lane : lanes) {
    request.types.push_back(kinds_[lane].type);
    lane_of.emplace(kinds_[lane].type, lane);
  }
  auto [tasks, valid_until] = context_.core.lease_tasks(request, room.idle);
  if (tasks.empty()) return Found::nothing;

  std::size_t bytes = 0;
  std::vector<TaskRunPtr> runs;
  runs.reserve(tasks.size());
  for (LeasedTask& task : tasks) {
    const std::size_t lane = lane_of.at(task.type);
    runs.push_back(std::make_shared<TaskRun>(std::move(task), kinds_[lane], lane, valid_until));
    bytes += runs.back()->bytes;
    context_.telemetry.record(TaskEventType::leased, *runs.back());
  }
  // If the tasks are so large that another one might not have fitted, there are probably more.
  const auto found = runs.size() < request.limit && bytes < request.max_bytes / 2
                         ? Found::some
                         : Found::all_it_asked_for;
  context_.board.add(std::move(runs));
  return found;
}

}  // namespace leasehold::inline v0
