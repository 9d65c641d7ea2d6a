#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "leasehold/redis_link.hpp"
#include "support/internal_api.hpp"

namespace leasehold::inline v0::redis {

/// How many replicas are connected to the primary, as it last said. Not thread-safe.
class LEASEHOLD_INTERNAL_API ReplicaCount {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// What the server answered to ROLE.
  void note(const RedisReply& role, TimePoint now);
  /// A confirmation fell short: perhaps because there are fewer by now, or more.
  void doubt() noexcept { asked_at_ = {}; }
  bool is_old(TimePoint now) const noexcept;

  long long count() const noexcept { return count_; }
  /// Why the number is unknown, as the server said it; otherwise empty.
  const std::string& error() const noexcept { return error_; }

  /// How many have to confirm a write.
  long long needed_for(RedisReplicas::Needed needed) const noexcept;

 private:
  long long count_ = 0;
  std::string error_;
  TimePoint asked_at_{};
};

/// Asks how many replicas have what was written on a connection before: with WAIT, WAITAOF or both,
/// as the writers want it, and with ROLE if the number of replicas is not known well enough.
class LEASEHOLD_INTERNAL_API Confirmation {
 public:
  /// Somebody wants this. The strongest wish of each kind counts.
  void add(const RedisReplicas& wish) noexcept;
  bool needed() const noexcept { return received_.wanted || on_disk_.wanted; }

  /// The commands to send behind the writes.
  std::vector<std::vector<std::string>> questions(const ReplicaCount& replicas,
                                                  ReplicaCount::TimePoint now);
  /// How long the server may take for them.
  std::chrono::milliseconds longest_wait() const noexcept;

  /// The next of the replies to them.
  void note(RedisReply&& reply, ReplicaCount& replicas);

  /// After all of them: writes into the replies of one writer whether they are replicated.
  void judge(const RedisReplicas& wish, std::span<RedisReply> replies,
             ReplicaCount& replicas) const;

  /// Writes into the replies why they are not.
  static void deny(std::span<RedisReply> replies, const std::string& why);

 private:
  struct Question {
    bool wanted = false;
    RedisReplicas::Needed needed = RedisReplicas::Needed::none;
    std::chrono::milliseconds timeout{0};
    bool answered = false;
    long long confirmed = 0;
    std::string error;
    bool saved_here = true;  // on the disk of the primary
  };

  Question received_;
  Question on_disk_;
  bool asks_role_ = false;
};

}  // namespace leasehold::inline v0::redis
