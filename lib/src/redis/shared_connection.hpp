#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "leasehold/errors.hpp"
#include "leasehold/redis_link.hpp"
#include "redis/connection.hpp"
#include "support/backoff.hpp"
#include "support/bell.hpp"

namespace leasehold::inline v0 {

/// One connection used by many threads at once.
///
/// Callers queue up. Whoever finds nobody leading becomes the leader: it sends what everybody
/// queued in one write and reads everybody's replies. When these begin to arrive it first sends
/// what was queued meanwhile, so that Redis has work while we are busy with its answers, and in the
/// end passes the lead to the first of those. So a lone caller talks to Redis with no thread in
/// between, and the busier it gets the more commands share a round trip.
class SharedConnection {
 public:
  using milliseconds = std::chrono::milliseconds;

  SharedConnection(RedisUri uri, milliseconds connect_timeout);

  /// See RedisLink::pipeline().
  std::vector<RedisReply> execute(std::span<const RedisCommand> commands, milliseconds timeout);

  /// How many callers are inside execute(): a hint for spreading load.
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

  // Words that a waiting caller is told.
  static constexpr std::uint32_t answered = 1;
  static constexpr std::uint32_t lead = 2;
  static constexpr std::uint32_t keep_time = 3;

  /// Lives on the stack of its caller.
  struct Request {
    std::string_view bytes;
    std::size_t expected = 0;
    TimePoint deadline;
    std::vector<RedisReply> replies;
    std::optional<Failure> failure;
    Bell::Word told{0};
    Bell* bell = nullptr;     // where it waits to be told
    bool keeps_time = false;  // waits until its deadline at most; protected by mutex_
    bool taken = false;       // by a leader; protected by mutex_
    Request* next = nullptr;
  };

  /// Where the callers of one round wait.
  struct Bells {
    Bell first;  // of the one that may be asked to lead
    Bell others;
  };

  /// Requests that are sent in one write.
  struct Round {
    Request* first = nullptr;
    Bells* bells = nullptr;
    TimePoint deadline{};
    std::size_t sent = 0;  // bytes of it that may have reached the server
  };

  /// What a caller has to do.
  enum class Role {
    leads,
    keeps_time,  ///< waits, and gives up at its deadline
    relies,      ///< waits; the one before it in the queue, which gives up no later, tells it if it
                 ///< does
  };

  Role enqueue(Request& request);
  void wait_for_answer_or_lead(Request& request, Role role);
  static std::uint32_t wait(Request& request, Role role);
  bool withdraw(Request& request);
  static void tell_to_keep_time(Request* behind);
  void lead_one_round(Request& own);
  Round take_queue();
  void connect_and_send(Round& round);
  void send(Round& round);
  void receive(Round& round);
  void fail(Round& round, const std::string& why) const;
  static void tell_answered(const Round& round, const Request* leader);
  std::chrono::steady_clock::duration ensure_connected();

  // Used by the leader only.
  Connection connection_;
  const std::string where_;
  std::string outgoing_;
  Round ahead_;  // sent by the leader before the next one, who will read its replies
  Backoff backoff_;
  TimePoint next_attempt_{};
  TimePoint last_used_{};
  Failure connect_failure_;  // of the last attempt to connect

  std::atomic<int> load_{0};

  std::array<Bells, 3> bells_;  // of the rounds in turn: one is read, one is sent, one is queued

  std::mutex mutex_;
  bool has_leader_ = false;  // protected by mutex_
  unsigned round_ = 0;       // the one that the queue is for; protected by mutex_
  Request* head_ = nullptr;  // waiting for the next round, oldest first; protected by mutex_
  Request* tail_ = nullptr;  // protected by mutex_
};

}  // namespace leasehold::inline v0
