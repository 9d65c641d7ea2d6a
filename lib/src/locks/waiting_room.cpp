#include "locks/waiting_room.hpp"

#include <spdlog/logger.h>

#include <algorithm>

#include "leasehold/errors.hpp"

namespace leasehold::inline v0 {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr milliseconds round_time{1'000};

// A line is watched a little after the grant should have ended, because the store's clock decides.
constexpr milliseconds after_end{5};

constexpr std::uint32_t ask_again = 1;

}  // namespace

WaitingRoom::WaitingRoom(LockStore& store, std::shared_ptr<spdlog::logger> logger)
    : store_(store), logger_(std::move(logger)) {}

WaitingRoom::~WaitingRoom() {
  std::jthread thread;  // joined without the mutex, which it needs to come to its end
  const ThreadLock lock(mutex_);
  thread = std::move(thread_);
}

WaitingRoom::Seat::Seat(WaitingRoom& room, std::string name, std::string owner)
    : room_(room), name_(std::move(name)), owner_(std::move(owner)) {
  room_.enter(*this);
}

WaitingRoom::Seat::~Seat() { room_.leave(*this); }

void WaitingRoom::Seat::expect_end(TimePoint when) {
  const ThreadLock lock(room_.mutex_);
  Line& line = room_.lines_.at(name_);
  if (when + after_end >= line.watch_at) return;
  line.watch_at = when + after_end;
  room_.changed_.notify_one();
}

void WaitingRoom::Seat::wait(TimePoint deadline, const std::stop_token& stop) {
  {
    const ThreadLock lock(room_.mutex_);
    stands_in_line_ = true;
    auto& seats = room_.lines_.at(name_).seats;
    seats.splice(seats.end(), seats, entry_);
  }
  const std::stop_callback on_stop(stop, [this] { told_.tell(ask_again); });
  told_.wait_until(deadline);
  // A message that comes from here on may be about something that the next request does not see.
  told_.clear();
}

void WaitingRoom::enter(Seat& seat) {
  const ThreadLock lock(mutex_);
  if (seats_.empty()) next_round_ = steady_clock::now() + round_time;
  seats_.emplace(seat.owner_, &seat);
  Line& line = lines_[seat.name_];
  if (line.seats.empty()) line.watch_at = steady_clock::now() + round_time;
  seat.entry_ = line.seats.insert(line.seats.end(), &seat);
  if (!thread_.joinable()) {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  } else if (seats_.size() == 1) {
    changed_.notify_one();
  }
}

void WaitingRoom::leave(Seat& seat) {
  const ThreadLock lock(mutex_);
  seats_.erase(seat.owner_);
  const auto line = lines_.find(seat.name_);
  line->second.seats.erase(seat.entry_);
  if (line->second.seats.empty()) lines_.erase(line);
}

void WaitingRoom::wake(std::string_view owner) {
  const ThreadLock lock(mutex_);
  const auto found = seats_.find(owner);
  if (found != seats_.end()) found->second->told_.tell(ask_again);
}

void WaitingRoom::wake_all() {
  const ThreadLock lock(mutex_);
  for (const auto& [owner, seat] : seats_) seat->told_.tell(ask_again);
}

void WaitingRoom::run(const std::stop_token& stop) {
  ThreadLock lock(mutex_);
  const auto has_waiters = [this]() LEASEHOLD_REQUIRES(mutex_) { return !seats_.empty(); };
  while (changed_.wait(lock, stop, has_waiters)) {
    const TimePoint planned = next_watch();
    changed_.wait_until(lock, stop, planned,
                        [&]() LEASEHOLD_REQUIRES(mutex_) { return next_watch() < planned; });
    if (stop.stop_requested()) return;
    const TimePoint now = steady_clock::now();
    if (now < next_watch()) continue;

    auto lines = choose_lines(now);
    if (lines.empty()) continue;
    lock.unlock();
    try {
      store_.watch_lines(lines);
      lock.lock();
      learn(lines, now);
    } catch (const std::exception& error) {
      logger_->info("waiting lines not watched error=\"{}\"", error.what());
      lock.lock();
    }
  }
}

WaitingRoom::TimePoint WaitingRoom::next_watch() const {
  TimePoint next = next_round_;
  for (const auto& [name, line] : lines_) next = std::min(next, line.watch_at);
  return next;
}

/// Chooses the lines whose grant should have ended. If a round is due, also those of the others
/// that were not watched for the longest time.
std::vector<LineWatch> WaitingRoom::choose_lines(TimePoint now) {
  std::size_t room_for = 0;
  if (now >= next_round_) {
    ++round_;
    next_round_ = now + round_time;
    room_for = most_lines_a_second;
  }
  std::vector<std::pair<const std::string*, Line*>> due;
  std::vector<std::pair<const std::string*, Line*>> others;
  for (auto& [name, line] : lines_) {
    (line.watch_at <= now ? due : others).emplace_back(&name, &line);
  }
  const std::size_t more = std::min(others.size(), room_for - std::min(room_for, due.size()));
  std::partial_sort(others.begin(), others.begin() + static_cast<std::ptrdiff_t>(more),
                    others.end(), [](const auto& a, const auto& b) {
                      return a.second->watched_round < b.second->watched_round;
                    });
  due.insert(due.end(), others.begin(), others.begin() + static_cast<std::ptrdiff_t>(more));

  std::vector<LineWatch> lines;
  for (const auto& [name, line] : due) {
    line->watched_round = round_;
    line->watch_at = now + round_time;
    // All waiters of a client are evicted from a line together, and those who join afterwards stand
    // in it. So the one that was seen there longest ago shows whether any of ours is missing.
    lines.push_back({.name = *name, .owner = line->seats.front()->owner_});
  }
  return lines;
}

void WaitingRoom::learn(const std::vector<LineWatch>& watched, TimePoint asked_at) {
  const bool few = lines_.size() <= most_lines_a_second;
  for (const LineWatch& watch : watched) {
    const auto found = lines_.find(watch.name);
    if (found == lines_.end()) continue;
    Line& line = found->second;
    // The waiter that we asked about may have left since then, or not have joined yet.
    if (const auto asked_for = seats_.find(watch.owner); asked_for != seats_.end()) {
      const Seat& asked = *asked_for->second;
      line.seats.splice(line.seats.end(), line.seats, asked.entry_);
      if (!watch.in_line && asked.stands_in_line_) {
        for (Seat* seat : line.seats) seat->told_.tell(ask_again);
      }
    }
    if (watch.look_in < milliseconds{0}) continue;
    const TimePoint end = asked_at + watch.look_in + after_end;
    line.watch_at = few ? std::min(end, line.watch_at) : end;
  }
}

}  // namespace leasehold::inline v0
