#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "leasehold/errors.hpp"
#include "leasehold/export.hpp"

namespace leasehold::inline v0 {

/// A reply from Redis.
struct RedisReply {
  enum class Type {
    nil,
    status,
    error,
    integer,
    string,
    array,
    not_sent,  ///< no reply: this command was not sent, but others of the pipeline were
    no_reply,  ///< no reply: this command may have been executed
  };

  Type type = Type::nil;
  /// Whether enough replicas have confirmed the write to satisfy RedisCall::replicas.
  bool replicated = false;
  long long integer = 0;  ///< for Type::integer
  /// For status, error and string. Otherwise why there is no reply, or why it is not replicated:
  /// an error reply of the server, which begins with a capital letter, or a phrase.
  std::string text;
  std::vector<RedisReply> elements;  ///< for array
};

/// One command and its arguments. The caller keeps the texts alive during the call.
struct RedisCommand : std::span<const std::string_view> {
  using span::span;
  RedisCommand(std::span<const std::string_view> words, std::string_view its_key)
      : span(words), key(its_key) {}

  /// In a cluster, the node that has this key gets the command. If it is empty, the command goes to
  /// every node that gets another command of the same pipeline, or to any node if there is no other
  /// command. If one of these nodes answers with an error, that is the reply; otherwise it is the
  /// reply of any of them.
  std::string_view key;
};

/// Which replicas must have a write before it counts.
struct RedisReplicas {
  enum class Needed {
    none,      ///< the primary alone decides
    any,       ///< one of the replicas
    majority,  ///< more than half of the replicas that are connected to the primary
    all,       ///< all replicas that are connected to the primary, and at least one
  };
  enum class Until {
    received,  ///< they have it in memory (WAIT)
    on_disk,   ///< the primary and the replicas have written it to disk (WAITAOF, Redis 7.2)
  };

  Needed needed = Needed::none;

  /// How long to wait for them. A write that is not confirmed by then does not count.
  std::chrono::milliseconds timeout{500};

  Until until = Until::received;
};

/// How to run a pipeline.
struct RedisCall {
  /// How long to wait for the replies. Default: the time-out of the link.
  std::optional<std::chrono::milliseconds> timeout;

  /// Which replicas must have confirmed what the commands wrote: RedisReply::replicated. A link
  /// that cannot find out leaves that false.
  RedisReplicas replicas;
};

/// A subscription lasts as long as this object.
class LEASEHOLD_API RedisSubscription {
 public:
  virtual ~RedisSubscription() = default;
};

/// A connection to one Redis, or to all nodes of a cluster. Implement this class to let Leasehold
/// use a Redis client that your application already has; otherwise `connect_redis()` makes one.
///
/// Thread safety: every member may be called from any thread.
class LEASEHOLD_API RedisLink {
 public:
  virtual ~RedisLink() = default;

  /// Sends the commands together and returns their replies in the same order. An error reply is a
  /// value (Type::error); the other commands are executed all the same.
  ///
  /// Throws Unavailable if no command was sent, OutcomeUnknown if at least one may have been
  /// executed but its reply did not arrive in time, and ServerRefused if the server refused the
  /// connection. If commands go to several servers and only some of these answer, the commands of
  /// the others get replies of Type::not_sent or no_reply instead.
  virtual std::vector<RedisReply> pipeline(std::span<const RedisCommand> commands,
                                           const RedisCall& call) = 0;
  std::vector<RedisReply> pipeline(std::span<const RedisCommand> commands) {
    return pipeline(commands, RedisCall{});
  }

  /// The links to all servers that hold a part of the keys. Empty if this link leads to one server.
  /// Throws what pipeline() throws.
  virtual std::vector<std::shared_ptr<RedisLink>> primaries() { return {}; }

  /// Names the server that has this key, as far as is known without asking. Heartbeats for
  /// different servers do not wait for each other. Empty if this link leads to one server.
  virtual std::string server_of(std::string_view /*key*/) { return {}; }

  /// A second link to the same servers, for heartbeats, which slow commands on this one cannot
  /// delay. Null if there is none: heartbeats then use this one, too.
  virtual std::shared_ptr<RedisLink> link_for_renewals() { return nullptr; }

  /// An argument that stands for the time at which the present connection was made, by the clock of
  /// the server: 16 digits, µs since 1970. A link that knows it writes it into the command when it
  /// sends it, so that fencing tokens do not repeat if another server has taken over with older
  /// data. A link that does not know sends the argument as it is.
  static constexpr std::array<char, 16> connected_at{'0', '0', '0', '0', '0', '0', '0', '0',
                                                     '0', '0', '0', '0', '0', '0', '0', '0'};

  /// Subscribes to a channel. Both functions are called on a thread of the subscription. It
  /// reconnects by itself, and calls `on_subscribed` each time it has subscribed, because messages
  /// may have been missed before.
  ///
  /// A link that cannot subscribe returns null, as this default does. Waiting for a lock still
  /// works then, but can take up to a second longer.
  // NOLINTBEGIN(performance-unnecessary-value-param): implementations keep them
  virtual std::unique_ptr<RedisSubscription> subscribe(
      std::string /*channel*/, std::function<void(std::string_view)> /*on_message*/,
      std::function<void()> /*on_subscribed*/) {
    return nullptr;
  }
  // NOLINTEND(performance-unnecessary-value-param)

  /// The address of the server, for messages. Never contains a password.
  virtual std::string where() const = 0;
};

/// For URIs that begin with `rediss`.
struct RedisTls {
  enum class Verify {
    full,  ///< the server's certificate must be valid and issued for its name
    none,  ///< any certificate will do; whoever sits in between can then read and change everything
  };

  /// The certificates to trust: a PEM file, or a directory with files named by hash. Default: those
  /// of the system.
  std::filesystem::path ca;

  /// The certificate of this client and its key, PEM files. Default: none. Both or neither.
  std::filesystem::path certificate;
  std::filesystem::path key;

  /// The name that the server's certificate must have, which is also sent to the server. Default:
  /// the host in the URI, or the one that a sentinel or the cluster names.
  std::string server_name;

  Verify verify = Verify::full;
};

struct RedisOptions {
  /// How long to wait for a connection to be made, from looking up the name of the server to its
  /// first answer. Default 2 s.
  std::chrono::milliseconds connect_timeout{2'000};

  /// How long to wait for a reply. After that the call throws OutcomeUnknown. Default 1 s.
  std::chrono::milliseconds command_timeout{1'000};

  /// The number of connections that all threads share. Commands of concurrent callers are
  /// pipelined, so one connection is nearly always best; more only help when a single core can no
  /// longer parse the replies. Default 1.
  std::size_t connections = 1;

  /// For URIs that begin with `rediss`. What the URI itself says takes precedence.
  RedisTls tls;
};

/// What an error reply of Redis means, and what to do about it: for links that report the refusal
/// of a connection. `where` begins the message.
LEASEHOLD_API ServerRefused explain_redis_error(std::string_view error_reply,
                                                const std::string& where);

/// Connects to
/// - `redis://[user:password@]host[:port][/db]`, or `redis://:password@host` without a user
/// - `redis+unix:///path/to/socket[?db=n]`
/// - `redis+sentinel://[user:password@]host[:port],…/service[/db]`: the primary that the sentinels
///   at these addresses name; `?sentinel_password=…` and `sentinel_user=…` are for themselves
/// - `redis+cluster://[user:password@]host[:port],…`: the cluster that the nodes at these addresses
///   belong to
/// - `rediss://`, `rediss+sentinel://` and `rediss+cluster://`: the same with TLS. `?ca=`, `cert=`,
///   `key=`, `server_name=` and `verify=none` are the members of RedisTls.
///
/// Users, passwords and options are percent-decoded.
///
/// The first command makes the connection, not this call. A lost connection is made again by
/// itself. Throws InvalidArgument, which names the part of the URI that is wrong.
LEASEHOLD_API std::shared_ptr<RedisLink> connect_redis(std::string_view uri,
                                                       const RedisOptions& options = {});

}  // namespace leasehold::inline v0
