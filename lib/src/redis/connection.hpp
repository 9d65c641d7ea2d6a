#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "leasehold/redis_link.hpp"
#include "redis/destination.hpp"
#include "redis/socket.hpp"
#include "redis/tls.hpp"

struct redisReader;
struct redisReplyObjectFunctions;

namespace leasehold::inline v0::redis {

/// What a reader needs to stay within the limits of reply_limits.hpp.
struct ArrayLimits {
  redisReplyObjectFunctions* of_hiredis = nullptr;
  std::size_t elements = 0;  ///< of the reply that is being read
};

/// One connection to Redis, and the only user of hiredis (0.14 and 1.x), which reads the replies.
/// Not thread-safe.
class Connection {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  using Broken = redis::Broken;

  explicit Connection(std::shared_ptr<Destination> destination);
  ~Connection();

  bool open() const noexcept { return socket_.open(); }

  /// Connects to the server that the destination names now, authenticates and selects the
  /// database, all within the time-out. Gives up soon if there is another primary meanwhile.
  /// Throws Unavailable or ServerRefused.
  void connect();

  /// When it was made, as RedisLink::connected_at wants it.
  std::string_view connected_at() const noexcept { return connected_at_; }
  /// Whether the server was a replica then. If it is none any more, another connection will tell.
  bool to_replica() const noexcept { return to_replica_; }
  /// What the server answered to ROLE then.
  const RedisReply& role() const noexcept { return role_; }
  /// Destination::moves() then.
  unsigned moves() const noexcept { return moves_; }

  /// Whether the server hung up while nothing was asked of it.
  bool hung_up() noexcept;

  /// Returns how many bytes may reach the server; not all of them if the connection broke.
  std::size_t send(std::string_view bytes, Deadline deadline);

  /// Waits until the next reply has arrived, or a part of it. Throws Broken.
  void await_bytes(Deadline deadline);

  /// The next reply. Throws Broken.
  RedisReply receive(Deadline deadline);

  /// The next reply if one arrives before the deadline and before `wake_fd` becomes readable.
  /// Throws Broken.
  std::optional<RedisReply> receive_or_wake(Deadline deadline, int wake_fd);

  void close() noexcept;

  /// Closes it so that nothing that was sent on it arrives any more: the kernel drops what it has
  /// not delivered yet, instead of delivering it when the network is back.
  void abandon() noexcept;

 private:
  struct FreeReader {
    void operator()(redisReader* reader) const noexcept;
  };

  void start_tls(Deadline deadline, const std::function<bool()>& give_up);
  void greet(Deadline deadline, const std::function<bool()>& give_up);
  void await_answer(Deadline deadline, const std::function<bool()>& give_up);
  void await_first_answer(Deadline deadline);
  std::optional<RedisReply> parse();
  std::size_t send_to_socket(std::string_view bytes, Deadline deadline);
  std::optional<std::string_view> read_from_socket(std::span<char> buffer, int flags = 0);
  bool read_some(int flags = 0);
  void deliver(std::string_view plain);
  void read_in_time(Deadline deadline);
  void check_let_in(RedisReply&& reply) const;
  void check_mode(const RedisReply& hello) const;
  void set_receive_timeout(Deadline deadline);

  const std::shared_ptr<Destination> destination_;
  RedisUri uri_;  // of the present server
  Connector connector_;
  Socket socket_;
  std::unique_ptr<TlsSession> tls_;  // while it is open
  std::unique_ptr<redisReader, FreeReader> reader_;
  std::chrono::milliseconds receive_timeout_{0};  // that the socket has now
  ArrayLimits array_limits_;
  std::size_t incomplete_bytes_ = 0;  // that came in since the last complete reply
  std::string connected_at_;
  bool to_replica_ = false;
  RedisReply role_;
  unsigned moves_ = 0;
};

/// Appends a command in the protocol of Redis. Notes where RedisLink::connected_at is in `out`.
void encode(RedisCommand command, std::string& out, std::vector<std::size_t>* stamps = nullptr);

}  // namespace leasehold::inline v0::redis
