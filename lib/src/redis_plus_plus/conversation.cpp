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

/// Whether a server that answers this to TIME may be used. It may forbid us that command; any other
/// error is its answer to every command.
bool is_usable(const RedisReply& time) {
  return time.type != Type::error ||
         explain_redis_error(time.text, {}).reason() == ServerRefused::Reason::permission;
}

}  // namespace

std::string address_of(const sw::redis::ConnectionOptions& options) {
  if (options.type == sw::redis::ConnectionType::UNIX) return options.path;
  return options.host + ":" + std::to_string(options.port);
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
  if (!is_usable(time)) throw sw::redis::ReplyError(time.text);
  const RedisReply role = ask(connection, "ROLE");
  Known known{.connected_at = to_stamp(time)};
  known.replicas.note(role, steady_clock::now());
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
  const auto reason = explain_redis_error(reply.text, {}).reason();
  using Reason = ServerRefused::Reason;
  if (reason != Reason::read_only && reason != Reason::no_primary) return;
  const ThreadLock lock(mutex_);
  known_[key].outdated = true;
}

std::vector<RedisReply> Conversation::run(Pipeline& pipeline,
                                          std::span<const RedisCommand> commands,
                                          const RedisCall& call) {
  std::vector<RedisReply> replies;
  std::vector<RedisReply> answers;  // of the replicas
  Key key;
  Known known;
  RedisReplicas wanted = call.replicas;
  redis::Confirmation confirmation;
  std::size_t questions = 0;
  bool sent = false;
  const auto talk = [&](Connection& connection) {
    known = get_to_know(connection);
    key = key_of(connection);
    check_role(known, commands, key);
    // hiredis only collects the commands. They are sent before the first reply is read.
    for (const RedisCommand& command : commands) {
      send(connection, command, {known.connected_at.data(), known.connected_at.size()});
    }
    // The reply must come before redis-plus-plus gives up.
    wanted.timeout = std::min(wanted.timeout, connection.options().socket_timeout * 3 / 4);
    confirmation.add(wanted);
    for (const auto& question : confirmation.questions(known.replicas, steady_clock::now())) {
      const std::vector<std::string_view> words(question.begin(), question.end());
      send(connection, RedisCommand{words}, {});
      ++questions;
    }
    sent = true;
    // redis-plus-plus itself reads the last one.
    for (std::size_t i = 0; i + 1 < commands.size() + questions; ++i) {
      (i < commands.size() ? replies : answers).push_back(to_reply(*connection.recv(false)));
    }
  };
  try {
    pipeline.command(talk);
    // This returns the connection to the pool.
    (questions > 0 ? answers : replies).push_back(only_reply(pipeline.exec()));
  } catch (const sw::redis::ReplyError& error) {
    throw explain_redis_error(error.what(), where());
  } catch (const sw::redis::Error& error) {
    const std::string what = where() + ": " + error.what();
    if (sent) throw OutcomeUnknown(what);
    throw Unavailable(what);
  }
  for (RedisReply& answer : answers) confirmation.note(std::move(answer), known.replicas);
  if (questions > 0) {
    confirmation.judge(wanted, replies, known.replicas);
    const ThreadLock lock(mutex_);
    if (const auto found = known_.find(key); found != known_.end()) {
      found->second.replicas = known.replicas;
    }
  }
  for (const RedisReply& reply : replies) look_at(key, reply);
  return replies;
}

}  // namespace leasehold::inline v0::redis_plus_plus
