#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "locks/lock_store.hpp"
#include "support/event.hpp"

namespace spdlog {
class logger;
}

namespace leasehold::inline v0 {

/// Where the threads of this process sit while they wait in the lines of locks.
///
/// The store's word wakes exactly the one that it is for. Beside that, one thread looks after the
/// lines once a second, for all waiters of the process together, so that a message that got lost
/// costs about a second. If the process waits for more locks than `most_lines_a_second`, it looks
/// after that many in turn, and after each when the lease that it waits for should end.
class WaitingRoom {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  static constexpr std::size_t most_lines_a_second = 5;

  WaitingRoom(LockStore& store, std::shared_ptr<spdlog::logger> logger);
  ~WaitingRoom();

  /// One waiter. Taken before it stands in line, so that no word is missed.
  class Seat {
   public:
    Seat(WaitingRoom& room, std::string name, std::string owner);
    ~Seat();
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;

    /// When the lease that it waits for should end: a reason to look at the line by then.
    void expect_end(TimePoint when);

    /// Until there is a reason to look, the deadline, or the stop token fires. To be called when it
    /// stands in line.
    void wait(TimePoint deadline, const std::stop_token& stop);

   private:
    friend class WaitingRoom;
    WaitingRoom& room_;
    const std::string name_;
    const std::string owner_;
    Event told_;
    // protected by the room
    std::list<Seat*>::iterator entry_;
    bool stands_in_line_ = false;  // it has looked at least once since it sat down
  };

  /// Word for one waiter. False if it is none of ours.
  bool tell(std::string_view owner);

  /// Everybody has to look.
  void tell_all();

 private:
  struct Line {
    std::list<Seat*> seats;         // the one that was seen in line longest ago is first
    TimePoint look_at;              // when the lease that they wait for should end
    std::uint64_t looked_at_round;  // in which it was looked after last
  };

  void enter(Seat& seat);
  void leave(Seat& seat);
  void run(const std::stop_token& stop);
  std::vector<LineWatch> choose_lines(TimePoint now);
  void learn(const std::vector<LineWatch>& lines, TimePoint asked_at);

  LockStore& store_;
  const std::shared_ptr<spdlog::logger> logger_;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  // All of these are protected by mutex_.
  std::unordered_map<std::string_view, Seat*> seats_;  // by owner
  std::map<std::string, Line> lines_;                  // by name
  std::uint64_t round_ = 0;
  TimePoint next_round_{};
  std::jthread thread_;  // starts with the first waiter
};

}  // namespace leasehold::inline v0
