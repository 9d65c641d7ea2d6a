#include "locks/waiting_room.hpp"

#include <spdlog/logger.h>

#include <algorithm>

#include "leasehold/errors.hpp"

namespace leasehold::inline v0 {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr milliseconds round_time{1'000};

// A lease that should have ended is looked after a little later: it ends by the server's clock.
constexpr milliseconds after_end{5};

constexpr std::uint32_t look = 1;

}  // namespace

WaitingRoom::WaitingRoom(LockStore& store, std::shared_ptr<spdlog::logger> logger)
    : store_(store), logger_(std::move(logger)) {}

WaitingRoom::~WaitingRoom() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

WaitingRoom::Seat::Seat(WaitingRoom& room, std::string name, std::string owner)
    : room_(room), name_(std::move(name)), owner_(std::move(owner)) {
  room_.enter(*this);
}

WaitingRoom::Seat::~Seat() { room_.leave(*this); }

void WaitingRoom::Seat::expect_end(TimePoint when) {
  const std::lock_guard guard(room_.mutex_);
  Line& line = room_.lines_.at(name_);
  if (when + after_end >= line.look_at) return;
  line.look_at = when + after_end;
  room_.changed_.notify_one();
}

void WaitingRoom::Seat::wait(TimePoint deadline, const std::stop_token& stop) {
  {
    const std::lock_guard guard(room_.mutex_);
    stands_in_line_ = true;
    auto& seats = room_.lines_.at(name_).seats;
    seats.splice(seats.end(), seats, entry_);
  }
  const std::stop_callback on_stop(stop, [this] { told_.tell(look); });
  told_.wait_until(deadline);
  // What is told from here on is about something that the coming look may not see.
  told_.clear();
}

void WaitingRoom::enter(Seat& seat) {
  const std::lock_guard guard(mutex_);
  if (seats_.empty()) next_round_ = steady_clock::now() + round_time;
  seats_.emplace(seat.owner_, &seat);
  Line& line = lines_[seat.name_];
  if (line.seats.empty()) line.look_at = steady_clock::now() + round_time;
  seat.entry_ = line.seats.insert(line.seats.end(), &seat);
  if (!thread_.joinable()) {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  } else if (seats_.size() == 1) {
    changed_.notify_one();
  }
}

void WaitingRoom::leave(Seat& seat) {
  const std::lock_guard guard(mutex_);
  seats_.erase(seat.owner_);
  const auto line = lines_.find(seat.name_);
  line->second.seats.erase(seat.entry_);
  if (line->second.seats.empty()) lines_.erase(line);
}

bool WaitingRoom::tell(std::string_view owner) {
  const std::lock_guard guard(mutex_);
  const auto found = seats_.find(owner);
  if (found == seats_.end()) return false;
  found->second->told_.tell(look);
  return true;
}

void WaitingRoom::tell_all() {
  const std::lock_guard guard(mutex_);
  for (const auto& [owner, seat] : seats_) seat->told_.tell(look);
}

void WaitingRoom::run(const std::stop_token& stop) {
  std::unique_lock guard(mutex_);
  while (changed_.wait(guard, stop, [this] { return !seats_.empty(); })) {
    const auto wake_at = [&] {
      TimePoint wake = next_round_;
      for (const auto& [name, line] : lines_) wake = std::min(wake, line.look_at);
      return wake;
    };
    const TimePoint planned = wake_at();
    changed_.wait_until(guard, stop, planned, [&] { return wake_at() < planned; });
    if (stop.stop_requested()) return;
    if (steady_clock::now() < wake_at()) continue;

    const TimePoint now = steady_clock::now();
    auto lines = choose_lines(now);
    if (lines.empty()) continue;
    guard.unlock();
    try {
      store_.watch_lines(lines);
      guard.lock();
      learn(lines, now);
    } catch (const std::exception& error) {
      logger_->info("waiting lines not looked after error=\"{}\"", error.what());
      guard.lock();
    }
  }
}

/// Those whose lease should have ended, and of the others those that were not looked after for the
/// longest time.
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
    (line.look_at <= now ? due : others).emplace_back(&name, &line);
  }
  const std::size_t more = std::min(others.size(), room_for - std::min(room_for, due.size()));
  std::partial_sort(others.begin(), others.begin() + static_cast<std::ptrdiff_t>(more),
                    others.end(), [](const auto& a, const auto& b) {
                      return a.second->looked_at_round < b.second->looked_at_round;
                    });
  due.insert(due.end(), others.begin(), others.begin() + static_cast<std::ptrdiff_t>(more));

  std::vector<LineWatch> lines;
  for (const auto& [name, line] : due) {
    line->looked_at_round = round_;
    line->look_at = now + round_time;
    // Waiters fall out of a line all together. Whoever came or came back after that stands in it;
    // so the one that was seen there longest ago tells whether any of us is missing.
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
    // The one we asked for may have left meanwhile, or not have come yet.
    if (const auto asked_for = seats_.find(watch.owner); asked_for != seats_.end()) {
      const Seat& asked = *asked_for->second;
      line.seats.splice(line.seats.end(), line.seats, asked.entry_);
      if (!watch.in_line && asked.stands_in_line_) {
        for (Seat* seat : line.seats) seat->told_.tell(look);
      }
    }
    if (watch.lease_ends < milliseconds{0}) continue;
    const TimePoint end = asked_at + watch.lease_ends + after_end;
    line.look_at = few ? std::min(end, line.look_at) : end;
  }
}

}  // namespace leasehold::inline v0
