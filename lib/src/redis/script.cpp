#include "redis/script.hpp"

#include <algorithm>
#include <stdexcept>

#include "redis/redis_errors.hpp"

namespace leasehold::inline v0::redis {
namespace {

constexpr std::array<std::string_view, 7> key_counts{"0", "1", "2", "3", "4", "5", "6"};

constexpr int most_reloads = 10;

bool is_missing_script(const RedisReply& reply) {
  return reply.type == RedisReply::Type::error && reply.text.starts_with("NOSCRIPT");
}

/// Loads the scripts that were missing and repeats their calls. If a script cannot be loaded, its
/// calls get that error as their reply, because the other calls of the batch have happened.
void reload_and_repeat(RedisLink& link, std::span<const ScriptCall> calls,
                       std::vector<RedisReply>& replies, const RedisCall& how) {
  std::vector<std::size_t> missing;
  std::vector<const EmbeddedText*> scripts;
  for (std::size_t i = 0; i < replies.size(); ++i) {
    if (!is_missing_script(replies[i])) continue;
    missing.push_back(i);
    const EmbeddedText* script = &calls[i].script();
    if (std::find(scripts.begin(), scripts.end(), script) == scripts.end()) {
      scripts.push_back(script);
    }
  }
  std::vector<std::array<std::string_view, 3>> loads;
  loads.reserve(scripts.size());
  for (const EmbeddedText* script : scripts) loads.push_back({"SCRIPT", "LOAD", script->text});

  std::vector<RedisCommand> commands(loads.begin(), loads.end());
  for (const std::size_t i : missing) commands.push_back(calls[i].command());
  std::vector<RedisReply> again;
  try {
    again = link.pipeline(commands, how);
  } catch (const Error& error) {
    if (missing.size() == replies.size()) throw;
    throw OutcomeUnknown(error.what());  // the other calls of this batch have happened
  }
  for (std::size_t i = 0; i < missing.size(); ++i) {
    RedisReply& reply = again[loads.size() + i];
    if (is_missing_script(reply)) {
      const auto script = std::find(scripts.begin(), scripts.end(), &calls[missing[i]].script());
      const RedisReply& load = again[static_cast<std::size_t>(script - scripts.begin())];
      if (load.type == RedisReply::Type::error) reply = load;
    }
    replies[missing[i]] = std::move(reply);
  }
}

void load_what_is_missing(RedisLink& link, std::span<const ScriptCall> calls,
                          std::vector<RedisReply>& replies, const RedisCall& how) {
  // More than once only if somebody flushes the scripts between our SCRIPT LOAD and our EVALSHA.
  for (int attempt = 0; attempt < most_reloads; ++attempt) {
    if (std::none_of(replies.begin(), replies.end(), is_missing_script)) break;
    reload_and_repeat(link, calls, replies, how);
  }
}

}  // namespace

ScriptCall::ScriptCall(const EmbeddedText& script, std::span<const std::string_view> keys,
                       std::initializer_list<std::string_view> arguments)
    : script_(&script), has_keys_(!keys.empty()) {
  if (keys.size() >= key_counts.size() || 3 + keys.size() + arguments.size() > words_.size()) {
    throw std::logic_error("ScriptCall: too many keys or arguments");
  }
  const auto add = [this](std::string_view word) { words_[size_++] = word; };
  add("EVALSHA");
  add(script.sha1);
  add(key_counts[keys.size()]);
  for (const auto key : keys) add(key);
  for (const auto argument : arguments) add(argument);
}

std::vector<RedisReply> run_scripts(RedisLink& link, std::span<const ScriptCall> calls,
                                    const RedisCall& how) {
  std::vector<RedisCommand> commands;
  commands.reserve(calls.size());
  for (const ScriptCall& call : calls) commands.push_back(call.command());
  auto replies = link.pipeline(commands, how);
  load_what_is_missing(link, calls, replies, how);
  return replies;
}

RedisReply run_script(RedisLink& link, const ScriptCall& call, const RedisCall& how) {
  const RedisCommand command = call.command();
  auto replies = link.pipeline({&command, 1}, how);
  RedisReply& reply = replies.front();
  if (is_missing_script(reply)) load_what_is_missing(link, {&call, 1}, replies, how);
  return checked(std::move(reply), link.where());
}

}  // namespace leasehold::inline v0::redis
