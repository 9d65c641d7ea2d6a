#include "redis_plus_plus/conversation.hpp"

#include <algorithm>
#include <string_view>

#include "leasehold/errors.hpp"

namespace leasehold::inline v0::redis_plus_plus {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Type = RedisReply::Type;

// What is known of connections that are gone is forgotten together with the rest.
constexpr std::size_t most_known = 4'096;
constexpr std::chrono::seconds count_replicas_every{1};

RedisReply to_reply(const redisReply& raw) {
  RedisReply reply;
  const auto take_text = [&](Type type) {
    reply.type = type;
    if (raw.str) reply.text.assign(raw.str, static_cast<std::size_t>(raw.len));
  };
  switch (raw.type) {
    case REDIS_REPLY_NIL:
      break;
    case REDIS_REPLY_STATUS:
      take_text(Type::status);
      break;
    case REDIS_REPLY_ERROR:
      take_text(Type::error);
      break;
    case REDIS_REPLY_INTEGER:
#ifdef REDIS_REPLY_BOOL
    case REDIS_REPLY_BOOL:
#endif
      reply.type = Type::integer;
      reply.integer = raw.integer;
      break;
    case REDIS_REPLY_ARRAY:
#ifdef REDIS_REPLY_MAP
    case REDIS_REPLY_MAP:
    case REDIS_REPLY_SET:
    case REDIS_REPLY_PUSH:
#endif
      reply.type = Type::array;
      reply.elements.reserve(raw.elements);
      for (std::size_t i = 0; i < raw.elements; ++i) {
        reply.elements.push_back(to_reply(*raw.element[i]));
      }
      break;
    default:
      take_text(Type::string);
  }
  return reply;
}

/// redis-plus-plus throws error replies, and cuts the first word off some of them.
RedisReply only_reply(sw::redis::QueuedReplies replies) {
  const auto error = [](std::string text) {
    return RedisReply{.type = Type::error, .text = std::move(text)};
  };
  try {
    return to_reply(replies.get(0));
  } catch (const sw::redis::MovedError& moved) {
    return error(std::string("MOVED ") + moved.what());
  } catch (const sw::redis::AskError& ask) {
    return error(std::string("ASK ") + ask.what());
  } catch (const sw::redis::Error& other) {
    return error(other.what());
  }
}

bool is_stamp(std::string_view word) {
  return word == std::string_view(RedisLink::connected_at.data(), RedisLink::connected_at.size());
}

void send(sw::redis::Connection& connection, RedisCommand words, std::string_view stamp) {
  std::vector<const char*> data;
  std::vector<std::size_t> sizes;
  data.reserve(words.size());
  sizes.reserve(words.size());
  for (const std::string_view word : words) {
    data.push_back(is_stamp(word) ? stamp.data() : word.data());
    sizes.push_back(word.size());
  }
  connection.send(static_cast<int>(data.size()), data.data(), sizes.data());
}

RedisReply ask(sw::redis::Connection& connection, const char* command) {
  connection.send(command);
  return to_reply(*connection.recv(false));
}

/// The answer to TIME as 16 digits; zeros if it is none.
auto to_stamp(const RedisReply& time) {
  auto stamp = RedisLink::connected_at;
  if (time.elements.size() != 2) return stamp;
  const std::string& seconds = time.elements[0].text;
  const std::string& micros = time.elements[1].text;
  if (seconds.size() > stamp.size() - 6 || micros.size() > 6) return stamp;
  std::copy(seconds.rbegin(), seconds.rend(), stamp.rbegin() + 6);
  std::copy(micros.rbegin(), micros.rend(), stamp.rbegin());
  return stamp;
}

void check_timeouts(const sw::redis::ConnectionOptions& options) {
  const bool tcp = options.type == sw::redis::ConnectionType::TCP;
  if (options.socket_timeout <= milliseconds{0} ||
      (tcp && options.connect_timeout <= milliseconds{0})) {
    throw InvalidArgument(
        "lend_redis: set connect_timeout and socket_timeout in the ConnectionOptions of "
        "redis-plus-plus; without them a server that does not answer is waited for without end");
  }
}

/// Whether the server lets us in. What it answers otherwise, it answers to every command.
bool is_shut_out(const RedisReply& reply) {
  return reply.type == Type::error &&
         (reply.text.starts_with("NOAUTH") || reply.text.starts_with("ERR max number of clients"));
}

}  // namespace

std::string address_of(const sw::redis::ConnectionOptions& options) {
  if (options.type == sw::redis::ConnectionType::UNIX) return options.path;
  return options.host + ":" + std::to_string(options.port);
}

void try_to_connect(RedisLink& link) {
  const std::array<std::string_view, 1> ping{"PING"};
  const RedisCommand command{ping};
  try {
    link.pipeline({&command, 1});
  } catch (const InvalidArgument&) {
    throw;
  } catch (const Error&) {
    // The first caller who needs the server is told.
  }
}

Conversation::Key Conversation::key_of(const Connection& connection) {
  return {connection.create_time(), connection.options().port};
}

std::optional<sw::redis::ConnectionOptions> Conversation::options() const {
  const ThreadLock lock(mutex_);
  return options_;
}

std::string Conversation::where() const {
  const auto learned = options();
  return learned ? "redis++ " + address_of(*learned) : "redis++";
}

/// Asks a new connection what the server's time and role are. One more round trip, but only once.
Conversation::Known Conversation::get_to_know(Connection& connection) {
  const Key key = key_of(connection);
  {
    const ThreadLock lock(mutex_);
    if (const auto found = known_.find(key); found != known_.end()) {
      if (!found->second.outdated) return found->second;
      known_.erase(found);
      connection.invalidate();
      throw Outdated{};
    }
  }
  check_timeouts(connection.options());
  const RedisReply time = ask(connection, "TIME");
  if (is_shut_out(time)) throw sw::redis::ReplyError(time.text);
  const RedisReply role = ask(connection, "ROLE");
  Known known{.connected_at = to_stamp(time)};
  known.is_replica = !role.elements.empty() && role.elements[0].text == "slave";

  const ThreadLock lock(mutex_);
  if (known_.size() >= most_known) known_.clear();
  known_[key] = known;
  options_ = connection.options();
  return known;
}

/// Tokens must not be given out by a server that was a replica when we connected: by now it may be
/// a primary whose counters are older than the connection.
void Conversation::check_role(const Known& known, std::span<const RedisCommand> commands,
                              const Key& key) {
  if (!known.is_replica) return;
  for (const RedisCommand& command : commands) {
    if (std::none_of(command.begin(), command.end(), is_stamp)) continue;
    const RedisReply refusal{.type = Type::error, .text = "READONLY its role is that of a replica"};
    look_at(key, refusal);
    throw explain_redis_error(refusal.text, where());
  }
}

/// A server that is not the primary: the next call connects anew, perhaps to another one.
void Conversation::look_at(const Key& key, const RedisReply& reply) {
  if (reply.type != Type::error) return;
  if (!reply.text.starts_with("READONLY") && !reply.text.starts_with("MASTERDOWN")) return;
  const ThreadLock lock(mutex_);
  known_[key].outdated = true;
}

/// How many replicas have to confirm; 0 if none have to, or if too few are connected.
long long Conversation::replicas_needed(Connection& connection, const RedisReplicas& replicas) {
  using Needed = RedisReplicas::Needed;
  if (replicas.needed == Needed::none) return 0;
  const auto now = steady_clock::now();
  const int port = connection.options().port;
  std::optional<long long> connected;
  {
    const ThreadLock lock(mutex_);
    if (replicas_.port == port && now - replicas_.counted < count_replicas_every) {
      connected = replicas_.connected;
    }
  }
  if (!connected) {
    const RedisReply role = ask(connection, "ROLE");
    connected =
        role.elements.size() == 3 ? static_cast<long long>(role.elements[2].elements.size()) : 0;
    const ThreadLock lock(mutex_);
    replicas_ = {port, *connected, now};
  }
  if (*connected == 0) return 0;
  if (replicas.needed == Needed::any) return 1;
  return replicas.needed == Needed::all ? *connected : *connected / 2 + 1;
}

std::vector<RedisReply> Conversation::run(Pipeline& pipeline,
                                          std::span<const RedisCommand> commands,
                                          const RedisCall& call, std::string* server) {
  std::vector<RedisReply> replies;
  Key key;
  long long needed = 0;
  const bool to_disk = call.replicas.until == RedisReplicas::Until::on_disk;
  bool sent = false;
  const auto talk = [&](Connection& connection) {
    const Known known = get_to_know(connection);
    key = key_of(connection);
    if (server) *server = address_of(connection.options());
    check_role(known, commands, key);
    needed = replicas_needed(connection, call.replicas);
    // hiredis only collects the commands. They are sent before the first reply is read.
    for (const RedisCommand& command : commands) {
      send(connection, command, {known.connected_at.data(), known.connected_at.size()});
    }
    if (needed > 0) {
      // Its reply must come before redis-plus-plus gives up.
      const auto patience =
          std::min(call.replicas.timeout, connection.options().socket_timeout * 3 / 4);
      const std::string ms = std::to_string(std::max<milliseconds::rep>(patience.count(), 1));
      const std::string count = std::to_string(needed);
      const std::vector<std::string_view> wait =
          to_disk ? std::vector<std::string_view>{"WAITAOF", "1", count, ms}
                  : std::vector<std::string_view>{"WAIT", count, ms};
      send(connection, RedisCommand{wait}, {});
    }
    const std::size_t expected = commands.size() + (needed > 0 ? 1 : 0);
    replies.reserve(expected);
    sent = true;
    while (replies.size() + 1 < expected) {
      replies.push_back(to_reply(*connection.recv(false)));
    }
  };
  try {
    pipeline.command(talk);
    replies.push_back(only_reply(pipeline.exec()));  // which returns the connection to the pool
  } catch (const sw::redis::ReplyError& error) {
    throw explain_redis_error(error.what(), where());
  } catch (const sw::redis::Error& error) {
    const std::string what = where() + ": " + error.what();
    if (sent) throw OutcomeUnknown(what);
    throw Unavailable(what);
  }

  if (needed > 0) {
    const RedisReply confirmed = std::move(replies.back());
    replies.pop_back();
    const bool enough = to_disk ? confirmed.elements.size() == 2 &&
                                      confirmed.elements[0].integer >= 1 &&
                                      confirmed.elements[1].integer >= needed
                                : confirmed.integer >= needed;
    for (RedisReply& reply : replies) reply.replicated = enough;
  }
  for (const RedisReply& reply : replies) look_at(key, reply);
  return replies;
}

RedisReply Conversation::run_one(Connection& connection, const RedisCommand& command) {
  const Known known = get_to_know(connection);
  check_role(known, {&command, 1}, key_of(connection));
  send(connection, command, {known.connected_at.data(), known.connected_at.size()});
  try {
    return to_reply(*connection.recv(false));
  } catch (const sw::redis::Error& error) {
    throw OutcomeUnknown(where() + ": " + error.what());
  }
}

}  // namespace leasehold::inline v0::redis_plus_plus
