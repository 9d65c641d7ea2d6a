#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "leasehold/errors.hpp"
#include "leasehold/redis_link.hpp"
#include "redis/confirmation.hpp"
#include "redis/connection.hpp"
#include "support/backoff.hpp"
#include "support/bell.hpp"
#include "support/thread_safety.hpp"

namespace leasehold::inline v0::redis {

/// One connection used by many threads at once.
///
/// Callers queue up. A caller that finds no leader becomes the leader: it sends what everybody has
/// queued in one write and reads everybody's replies. When these begin to arrive, it first sends
/// what was queued in the meantime, so that Redis has work while the replies are read; at the end
/// it passes the lead to the first of those callers. So a lone caller talks to Redis without
/// another thread in between, and the more callers there are, the more commands share a round trip.
class SharedConnection {
 public:
  using milliseconds = std::chrono::milliseconds;

  explicit SharedConnection(std::shared_ptr<Destination> destination);

  /// See RedisLink::pipeline().
  std::vector<RedisReply> execute(std::span<const RedisCommand> commands, milliseconds timeout,
                                  const RedisReplicas& replicas = {});

  /// The number of callers inside execute(), as a hint for spreading load.
  int load() const noexcept { return load_.load(std::memory_order_relaxed); }

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  enum class FailureKind { unavailable, outcome_unknown, refused };
  struct Failure {
    FailureKind kind = FailureKind::unavailable;
    std::string what;
    ServerRefused::Reason reason = ServerRefused::Reason::other;
    [[noreturn]] void raise() const;
  };

  // What a waiting caller is told.
  static constexpr std::uint32_t answered = 1;
  static constexpr std::uint32_t lead = 2;
  static constexpr std::uint32_t keep_time = 3;

  /// Lives on the stack of its caller. Once it is queued, `keeps_time`, `taken` and `next` are
  /// guarded by mutex_ until a leader takes it. (An annotation cannot name the mutex of the outer
  /// class.)
  struct Request {
    std::string_view bytes;
    std::size_t expected = 0;
    char* buffer = nullptr;               // where the bytes are
    std::span<const std::size_t> stamps;  // where RedisLink::connected_at is in them
    TimePoint deadline;
    RedisReplicas replicas;
    std::vector<RedisReply> replies;
    std::optional<Failure> failure;
    Bell::Word told{0};
    Bell* bell = nullptr;     // where it waits to be told
    bool keeps_time = false;  // waits until its deadline at most
    bool taken = false;       // by a leader
    Request* next = nullptr;
  };

  /// Where the callers of one round wait.
  struct Bells {
    Bell first;  // for the one that may be asked to lead
    Bell others;
  };

  /// Requests that are sent in one write.
  struct Round {
    Request* first = nullptr;
    Bells* bells = nullptr;
    TimePoint deadline{};
    Confirmation confirmation;  // of the requests, by replicas
    std::string question;       // sent behind the requests; empty if nobody wants a confirmation
    std::size_t answers = 0;    // to the question
    std::size_t sent = 0;       // bytes that may have reached the server
    bool complete = false;      // all of them
  };

  /// What a caller has to do.
  enum class Role {
    leads,
    keeps_time,  ///< waits, and gives up at its deadline
    relies,      ///< waits without a timer: the caller before it in the queue has no later
                 ///< deadline, and tells it when it gives up
  };

  Role enqueue(Request& request);
  void wait_for_answer_or_lead(Request& request, Role role);
  static std::uint32_t wait(Request& request, Role role);
  bool withdraw(Request& request);
  void tell_to_keep_time(Request* behind) LEASEHOLD_REQUIRES(mutex_);
  void lead_one_round(Request& own);
  Round take_queue();
  bool connect_for(Round& round);
  void stamp(Round& round);
  void send(Round& round);
  void ask_for_confirmation(Round& round);
  void receive(Round& round);
  void receive_confirmation(Round& round);
  void fail(Round& round, const std::string& why) const;
  static void tell_answered(const Round& round, const Request* leader);
  std::chrono::steady_clock::duration ensure_connected();
  void move_if_it_is_time(TimePoint now);

  const std::shared_ptr<Destination> destination_;

  // Used by the leader only; mutex_ orders one leader after the other.
  Connection connection_;
  const std::string where_;
  std::string outgoing_;
  Round ahead_;  // sent by this leader, and read by the next one
  ReplicaCount replica_count_;
  Backoff backoff_;
  TimePoint next_attempt_{};
  TimePoint last_used_{};
  bool wants_to_move_ = false;  // the name of the server may lead to another one by now
  Backoff move_backoff_;
  TimePoint next_move_{};
  Failure connect_failure_;  // of the last attempt to connect

  std::atomic<int> load_{0};

  std::array<Bells, 3> bells_;  // for rounds in turn: one is read, one is sent, one is queued

  ThreadMutex mutex_;
  bool has_leader_ LEASEHOLD_GUARDED_BY(mutex_) = false;
  unsigned round_ LEASEHOLD_GUARDED_BY(mutex_) = 0;  // the one that is queued
  // The queue for the next round, oldest first.
  Request* head_ LEASEHOLD_GUARDED_BY(mutex_) = nullptr;
  Request* tail_ LEASEHOLD_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace leasehold::inline v0::redis
