#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "locks/lock_store.hpp"
#include "support/event.hpp"
#include "support/thread_safety.hpp"

namespace spdlog {
class logger;
}

namespace leasehold::inline v0 {

/// Where the threads of this client sit while they wait in the lines of locks.
///
/// A message from the store wakes exactly the waiter that it is for. In addition one thread watches
/// the lines once a second, for all waiters together, so that a lost message costs about a second.
/// If the client waits for more than `most_lines_a_second` locks, the thread watches that many in
/// turn, and each of them when the grant that it waits for should end.
class WaitingRoom {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  static constexpr std::size_t most_lines_a_second = 5;

  WaitingRoom(LockStore& store, std::shared_ptr<spdlog::logger> logger);
  ~WaitingRoom();

  /// One waiter. Taken before it joins the line, so that no message is missed.
  class Seat {
   public:
    Seat(WaitingRoom& room, std::string name, std::string owner);
    ~Seat();
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;

    /// Says when the grant that it waits for should end, so that the line is watched then.
    void expect_end(TimePoint when);

    /// Waits until there is a reason to ask the store again, the deadline has passed or the stop
    /// token fires. The waiter must have joined the line.
    void wait(TimePoint deadline, const std::stop_token& stop);

   private:
    friend class WaitingRoom;
    WaitingRoom& room_;
    const std::string name_;
    const std::string owner_;
    Event told_;
    // Guarded by the mutex of the room. (Clang cannot tell that room_.mutex_ and the mutex_ of a
    // member function of the room are one.)
    std::list<Seat*>::iterator entry_;
    bool stands_in_line_ = false;  // it has asked the store at least once since it sat down
  };

  /// Makes one waiter ask the store again. Does nothing if there is no such waiter.
  void wake(std::string_view owner);

  /// Makes all waiters ask the store again.
  void wake_all();

 private:
  struct Line {
    std::list<Seat*> seats;       // the one that was seen in line longest ago is first
    TimePoint watch_at;           // when the grant that they wait for should end
    std::uint64_t watched_round;  // in which it was watched last
  };

  void enter(Seat& seat);
  void leave(Seat& seat);
  void run(const std::stop_token& stop);
  TimePoint next_watch() const LEASEHOLD_REQUIRES(mutex_);
  std::vector<LineWatch> choose_lines(TimePoint now) LEASEHOLD_REQUIRES(mutex_);
  void learn(const std::vector<LineWatch>& lines, TimePoint asked_at) LEASEHOLD_REQUIRES(mutex_);

  LockStore& store_;
  const std::shared_ptr<spdlog::logger> logger_;

  ThreadMutex mutex_;
  StoppableCondition changed_;
  std::unordered_map<std::string_view, Seat*> seats_ LEASEHOLD_GUARDED_BY(mutex_);  // by owner
  std::map<std::string, Line> lines_ LEASEHOLD_GUARDED_BY(mutex_);                  // by name
  std::uint64_t round_ LEASEHOLD_GUARDED_BY(mutex_) = 0;
  TimePoint next_round_ LEASEHOLD_GUARDED_BY(mutex_){};
  std::jthread thread_ LEASEHOLD_GUARDED_BY(mutex_);  // starts with the first waiter
};

}  // namespace leasehold::inline v0
