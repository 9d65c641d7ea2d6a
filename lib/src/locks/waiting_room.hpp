#pragma once

#include <chrono>
#include <list>
#include <map>
#include <memory>
#include <optional>
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
/// the lines, for all waiters together: a line in which other clients wait too once a second, to
/// show that this one is alive; every line when the grant or offer should end; and the others in
/// turn, one a second, in case a message was lost.
class WaitingRoom {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  WaitingRoom(LockStore& store, std::shared_ptr<spdlog::logger> logger);
  ~WaitingRoom();

  /// One waiter. Taken before it joins the line, so that no message is missed.
  class Seat {
   public:
    Seat(WaitingRoom& room, std::string name, std::string owner);
    ~Seat();
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;

    /// Says what the store told when the waiter joined the line or asked again: when the grant that
    /// it waits for should end, if that is known, and whether other clients wait.
    /// `asked_at` is when it asked.
    void note_line(std::optional<TimePoint> end, bool alone, TimePoint asked_at);

    /// Waits until there is a reason to ask the store again, the deadline has passed or the stop
    /// token fires. The waiter must have joined the line.
    void wait(TimePoint deadline, const std::stop_token& stop);

    /// The same for one that may not have joined the line, because the store refused the request.
    void rest(TimePoint deadline, const std::stop_token& stop);

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

  /// Makes one waiter ask the store again. False if there is no such waiter.
  bool wake(std::string_view owner);

  /// Makes all waiters ask the store again.
  void wake_all();

  /// Shows at once that this client is alive, because others have begun to wait for this lock.
  void show_in(const std::string& name);

  /// Whether messages of the store arrive. While they do not, every line is watched once a second.
  void set_hears(bool hears);

 private:
  struct Line {
    std::list<Seat*> seats;  // the one that was seen in line longest ago is first
    bool alone = false;      // no other client waits there
    TimePoint crowded_at{};  // when a message said so; an answer from before may come after it
    bool answered = false;   // the store has said when the present grant ends
    TimePoint watch_at;
  };

  void enter(Seat& seat);
  void leave(Seat& seat);
  void run(const std::stop_token& stop);
  TimePoint next_watch() const LEASEHOLD_REQUIRES(mutex_);
  void wake_those_who_must_ask(Line& line, Seat& asked, LineWatch::Found found)
      LEASEHOLD_REQUIRES(mutex_);
  static void set_alone(Line& line, bool alone, TimePoint asked_at);
  TimePoint next_watch_of(const Line& line, TimePoint now) const LEASEHOLD_REQUIRES(mutex_);
  std::vector<LineWatch> choose_lines(TimePoint now) LEASEHOLD_REQUIRES(mutex_);
  void watch_again_soon(const std::string& name, TimePoint now) LEASEHOLD_REQUIRES(mutex_);
  void learn(const std::vector<LineWatch>& lines, TimePoint asked_at) LEASEHOLD_REQUIRES(mutex_);

  LockStore& store_;
  const std::shared_ptr<spdlog::logger> logger_;

  ThreadMutex mutex_;
  StoppableCondition changed_;
  std::unordered_map<std::string_view, Seat*> seats_ LEASEHOLD_GUARDED_BY(mutex_);  // by owner
  std::map<std::string, Line> lines_ LEASEHOLD_GUARDED_BY(mutex_);                  // by name
  bool hears_ LEASEHOLD_GUARDED_BY(mutex_) = true;
  std::jthread thread_ LEASEHOLD_GUARDED_BY(mutex_);  // starts with the first waiter
};

}  // namespace leasehold::inline v0
