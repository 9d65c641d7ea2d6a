#include "locks/waiting_room.hpp"

#include <spdlog/logger.h>

#include <algorithm>
#include <utility>

#include "leasehold/errors.hpp"
#include "support/log_event.hpp"
#include "support/random.hpp"
#include "support/start_thread.hpp"

namespace leasehold::inline v0 {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr milliseconds round_time{1'000};

// A line is watched a little after the grant should have ended, because the store's clock decides.
constexpr milliseconds after_end{2};

// However many lines there are, each is watched after so many seconds, more or less.
constexpr double most_turns = 120;

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

void WaitingRoom::Seat::note_line(std::optional<TimePoint> end, bool alone, TimePoint asked_at) {
  const ThreadLock lock(room_.mutex_);
  Line& line = room_.lines_.at(name_);
  set_alone(line, alone, asked_at);
  TimePoint watch_at = room_.next_watch_of(line, steady_clock::now());
  if (end) watch_at = std::min(watch_at, *end + after_end);
  // The first answer is as good as a look if it says when the grant ends.
  const bool instead_of_a_look = end && !std::exchange(line.answered, true);
  if (watch_at >= line.watch_at && !instead_of_a_look) return;
  line.watch_at = watch_at;
  room_.changed_.notify_one();
}

void WaitingRoom::Seat::wait(TimePoint deadline, const std::stop_token& stop) {
  {
    const ThreadLock lock(room_.mutex_);
    stands_in_line_ = true;
    auto& seats = room_.lines_.at(name_).seats;
    seats.splice(seats.end(), seats, entry_);
  }
  rest(deadline, stop);
}

void WaitingRoom::Seat::rest(TimePoint deadline, const std::stop_token& stop) {
  const std::stop_callback on_stop(stop, [this] { told_.tell(ask_again); });
  told_.wait_until(deadline);
  // A message that comes from here on may be about something that the next request does not see.
  told_.clear();
}

void WaitingRoom::enter(Seat& seat) {
  const ThreadLock lock(mutex_);
  if (!thread_.joinable()) {  // before anything else: it may throw
    thread_ = start_thread("that watches the lines of locks",
                           [this](const std::stop_token& stop) { run(stop); });
  }
  seats_.emplace(seat.owner_, &seat);
  Line& line = lines_[seat.name_];
  if (line.seats.empty()) line.watch_at = steady_clock::now() + round_time;
  seat.entry_ = line.seats.insert(line.seats.end(), &seat);
  if (line.seats.size() == 1) changed_.notify_one();
}

void WaitingRoom::leave(Seat& seat) {
  const ThreadLock lock(mutex_);
  seats_.erase(seat.owner_);
  const auto line = lines_.find(seat.name_);
  line->second.seats.erase(seat.entry_);
  if (line->second.seats.empty()) lines_.erase(line);
}

bool WaitingRoom::wake(std::string_view owner) {
  const ThreadLock lock(mutex_);
  const auto found = seats_.find(owner);
  if (found == seats_.end()) return false;
  found->second->told_.tell(ask_again);
  return true;
}

void WaitingRoom::wake_all() {
  const ThreadLock lock(mutex_);
  for (const auto& [owner, seat] : seats_) seat->told_.tell(ask_again);
}

void WaitingRoom::show_in(const std::string& name) {
  const ThreadLock lock(mutex_);
  const auto found = lines_.find(name);
  if (found == lines_.end()) return;
  found->second.alone = false;
  found->second.crowded_at = found->second.watch_at = steady_clock::now();
  changed_.notify_one();
}

void WaitingRoom::set_hears(bool hears) {
  const ThreadLock lock(mutex_);
  hears_ = hears;
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
      log_info(*logger_, "waiting lines not watched", {{"error", error.what()}});
      lock.lock();
      for (const LineWatch& watch : lines) watch_again_soon(watch.name, now);
    }
  }
}

WaitingRoom::TimePoint WaitingRoom::next_watch() const {
  TimePoint next = TimePoint::max();
  for (const auto& [name, line] : lines_) next = std::min(next, line.watch_at);
  return next;
}

void WaitingRoom::set_alone(Line& line, bool alone, TimePoint asked_at) {
  line.alone = alone && line.crowded_at < asked_at;
}

/// When to watch a line again that is watched now. Those in which nobody else waits come in turn,
/// so that all of them together cost less than one look a second.
WaitingRoom::TimePoint WaitingRoom::next_watch_of(const Line& line, TimePoint now) const {
  if (!hears_ || !line.alone || lines_.size() == 1) return now + round_time;
  // The keys of a line live for five minutes or more after each look.
  const auto turns = std::min(static_cast<double>(lines_.size()), most_turns);
  return now +
         std::chrono::duration_cast<milliseconds>(round_time * (turns * (1.0 + random_share())));
}

std::vector<LineWatch> WaitingRoom::choose_lines(TimePoint now) {
  std::vector<LineWatch> lines;
  for (auto& [name, line] : lines_) {
    if (line.watch_at > now) continue;
    line.watch_at = next_watch_of(line, now);
    // All waiters of a client are passed over together, and those who join afterwards stand in
    // line. So the one that was seen there longest ago shows whether any of ours is missing.
    lines.push_back({.name = name, .owner = line.seats.front()->owner_});
  }
  return lines;
}

void WaitingRoom::wake_those_who_must_ask(Line& line, Seat& asked, LineWatch::Found found) {
  if (found == LineWatch::Found::offered) asked.told_.tell(ask_again);  // the message was lost
  if (found == LineWatch::Found::missing || !hears_) {
    for (Seat* seat : line.seats) seat->told_.tell(ask_again);
  }
}

/// The last look has failed.
void WaitingRoom::watch_again_soon(const std::string& name, TimePoint now) {
  const auto found = lines_.find(name);
  if (found == lines_.end()) return;
  found->second.watch_at = std::min(found->second.watch_at, now + round_time);
}

void WaitingRoom::learn(const std::vector<LineWatch>& watched, TimePoint asked_at) {
  for (const LineWatch& watch : watched) {
    const auto found = lines_.find(watch.name);
    if (found == lines_.end()) continue;
    if (!watch.error.empty()) {
      log_info(*logger_, "waiting line not watched",
               {{"name", watch.name}, {"error", watch.error}});
      watch_again_soon(watch.name, asked_at);
      continue;
    }
    Line& line = found->second;
    set_alone(line, watch.alone, asked_at);
    // The waiter that we asked about may have left since then, or not have joined yet.
    if (const auto asked_for = seats_.find(watch.owner); asked_for != seats_.end()) {
      Seat& asked = *asked_for->second;
      line.seats.splice(line.seats.end(), line.seats, asked.entry_);
      if (asked.stands_in_line_) wake_those_who_must_ask(line, asked, watch.found);
    }
    // Somebody may have noted an earlier end meanwhile.
    line.watch_at = std::min(line.watch_at, next_watch_of(line, asked_at));
    if (watch.look_in < milliseconds{0}) continue;
    line.watch_at = std::min(line.watch_at, asked_at + watch.look_in + after_end);
  }
}

}  // namespace leasehold::inline v0
