#include "redis/redis_errors.hpp"

#include <algorithm>
#include <array>

namespace leasehold::inline v0::redis {
namespace {

using Reason = ServerRefused::Reason;

struct Explanation {
  std::string_view code;
  Reason reason;
  std::string_view advice;
};

constexpr std::array explanations{
    Explanation{"WRONGPASS", Reason::authentication, "wrong user or password in the URI"},
    Explanation{"ERR invalid password", Reason::authentication, "wrong password in the URI"},
    Explanation{"ERR AUTH", Reason::authentication, "the URI has a password, the server has none"},
    Explanation{"ERR Client sent AUTH", Reason::authentication,
                "the URI has a password, the server has none"},
    Explanation{"NOAUTH", Reason::authentication, "the server wants a password: add it to the URI"},
    Explanation{"NOPERM", Reason::permission, "the user may not run this command or use this key"},
    // What Redis 6 and 7.0, and 7.2, say instead of NOPERM if a command inside a script is refused.
    Explanation{"ERR The user executing the script", Reason::permission,
                "the user may not run a command that a script of ours needs"},
    Explanation{"The user executing the script", Reason::permission,
                "the user may not run a command that a script of ours needs"},
    Explanation{"ERR ACL failure in script", Reason::permission,
                "the user may not run a command that a script of ours needs"},
    Explanation{"WRONGTYPE", Reason::wrong_type,
                "another program uses this key for something else"},
    Explanation{"OOM", Reason::out_of_memory, "the server is at its memory limit (maxmemory)"},
    Explanation{"ERR max number of clients reached", Reason::too_many_clients,
                "the server accepts no more connections (maxclients)"},
    Explanation{"MISCONF", Reason::cannot_save,
                "the server cannot save its data and refuses writes"},
    Explanation{"READONLY", Reason::read_only, "this is a replica: point the URI at the primary"},
    Explanation{"ERR WAIT cannot be used with replica", Reason::read_only,
                "this is a replica: point the URI at the primary"},
    Explanation{"ERR WAITAOF cannot be used with replica", Reason::read_only,
                "this is a replica: point the URI at the primary"},
    Explanation{"UNBLOCKED", Reason::read_only, "the server has just become a replica"},
    Explanation{"NOREPLICAS", Reason::no_replicas,
                "fewer replicas are connected than the server wants (min-replicas-to-write)"},
    Explanation{"MASTERDOWN", Reason::no_primary, "the replica has no link to its primary"},
    Explanation{"CLUSTERDOWN", Reason::no_primary, "the cluster is down"},
    Explanation{"LOADING", Reason::loading, "the server is still reading its data set"},
    Explanation{"BUSY", Reason::busy, "a script blocks the server"},
    Explanation{"TRYAGAIN", Reason::busy, "the cluster moves this key to another node"},
    Explanation{"MOVED", Reason::other, "this is a node of a Redis Cluster: use redis+cluster://"},
};

/// Redis before version 7 wraps the errors of commands inside a script, once or twice: "ERR Error
/// running script (call to f_…): @user_script:3: WRONGTYPE …" or "…: @user_script:3: @user_script:
/// 3: -OOM …".
std::string_view without_script_frame(std::string_view error) {
  if (!error.starts_with("ERR Error running script")) return error;
  constexpr std::string_view place = "@user_script:";
  std::string_view inner = error.substr(std::min(error.find(place), error.size()));
  while (inner.starts_with(place)) {
    inner.remove_prefix(
        std::min(inner.find_first_not_of(" 0123456789", place.size()), inner.size()));
    if (!inner.starts_with(": ")) return error;  // an unknown kind of frame
    inner.remove_prefix(2);
  }
  if (inner.starts_with('-')) inner.remove_prefix(1);
  return inner.empty() ? error : inner;
}

}  // namespace

ServerRefused explain(std::string_view error_reply, const std::string& where) {
  const std::string_view error = without_script_frame(error_reply);
  const bool in_script = error_reply.find("@user_script") != std::string_view::npos;
  for (const auto& known : explanations) {
    if (!error.starts_with(known.code)) continue;
    const std::string what =
        where + ": " + std::string(known.advice) + " (" + std::string(error) + ")";
    // A server in such a state refuses the first write of a script, so that it has done nothing.
    const bool at_once = ServerRefused(known.reason, what).transient();
    return {known.reason, what, in_script && !at_once};
  }
  return {Reason::other, where + ": " + std::string(error), in_script};
}

bool is_about_this_server(std::string_view error_reply) {
  const std::string_view error = without_script_frame(error_reply);
  return error.starts_with("READONLY") || error.starts_with("MASTERDOWN") ||
         error.starts_with("CLUSTERDOWN");
}

bool is_failure(const RedisReply& reply) {
  return reply.type == RedisReply::Type::error || reply.type == RedisReply::Type::not_sent ||
         reply.type == RedisReply::Type::no_reply;
}

std::string why_failed(const RedisReply& reply, const std::string& where) {
  return reply.type == RedisReply::Type::error ? explain(reply.text, where).what() : reply.text;
}

RedisReply&& checked(RedisReply&& reply, const std::string& where) {
  if (reply.type == RedisReply::Type::error) throw explain(reply.text, where);
  if (reply.type == RedisReply::Type::not_sent) throw Unavailable(reply.text);
  if (reply.type == RedisReply::Type::no_reply) throw OutcomeUnknown(reply.text);
  return std::move(reply);
}

ServerRefused not_replicated(const RedisReply& reply, const std::string& where) {
  constexpr std::string_view end = ", so the write does not count";
  const std::string& why = reply.text;
  if (why.empty()) {
    return {Reason::other,
            where + ": this link does not say what replicas have confirmed" + std::string(end),
            true};
  }
  if (why[0] >= 'A' && why[0] <= 'Z') {  // an error reply
    const ServerRefused refused = explain(why, where + ": cannot ask the replicas");
    return {refused.reason(), refused.what() + std::string(end), true};
  }
  return {Reason::no_replicas, where + ": " + why + std::string(end), true};
}

}  // namespace leasehold::inline v0::redis

namespace leasehold::inline v0 {

ServerRefused explain_redis_error(std::string_view error_reply, const std::string& where) {
  return redis::explain(error_reply, where);
}

}  // namespace leasehold::inline v0
