#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "leasehold/errors.hpp"
#include "leasehold/redis_link.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace leasehold::fuzz {

using std::chrono::milliseconds;

/// What the scripts answer, so that inputs get past the first word of a reply.
inline const std::array<std::string, 24> known_texts{
    "busy",
    "free",
    "handed",
    "mine",
    "adopted",
    "stale",
    "stolen",
    "forced",
    "late",
    "waiting",
    "offered",
    "missing",
    "0",
    "1700000000",
    "lh:{a}",
    std::string(32, '0'),
    std::string(32, 'a') + R"(={"runner":"r","pid":1,"host":"h","platform":"p","linger":1000,)" +
        R"("ttl":1000,"renewals":1,"held":5,"token":9,"metadata":{"a":"b"}})",
    std::string(32, 'a') + R"(?{"runner":"r","pid":1,"host":"h","platform":"p","linger":1,)" +
        R"("ttl":1,"renewals":1,"held":9223372036854775807})",
    R"(={"runner":"r","pid":1,"host":"h","platform":"p","linger":1,"ttl":1,"renewals":1,"held":1})",
    "client x 0 5 1700000000000 3 " + std::string(32, 'a') +
        R"(={"runner":"r","pid":1,"host":"h"})",
    "NOSCRIPT no matching script",
    "WRONGTYPE of something",
    "ERR anything",
    "READONLY replica"};

/// Bytes of the input become a reply.
inline RedisReply take_reply(Input& input, int depth = 0) {
  using Type = RedisReply::Type;
  const unsigned shape = input.byte();
  switch (shape % 8) {
    case 0:
      return {};
    case 1:
      return {.type = Type::integer, .integer = input.integer()};
    case 2:
      return {.type = Type::integer, .integer = static_cast<long long>(shape / 8) - 2};
    case 3:
      return {.type = Type::string, .text = std::string(input.text(input.byte()))};
    case 4:
      return {.type = Type::error, .text = known_texts[20 + shape / 8 % 4]};
    case 5:
      return {.type = Type::string, .text = known_texts[shape / 8 % known_texts.size()]};
    case 6:
      return {.type = Type::status, .text = known_texts[shape / 8 % known_texts.size()]};
    default:
      break;
  }
  RedisReply reply{.type = Type::array};
  if (depth == 4) return reply;
  const unsigned size = shape / 8 % 16;
  for (unsigned i = 0; i < size; ++i) reply.elements.push_back(take_reply(input, depth + 1));
  return reply;
}

/// Answers from the input and is unavailable at its end. Threads of the client see the whole input
/// as well, so that what the caller's thread is answered does not depend on their timing.
class InputLink final : public RedisLink {
 public:
  explicit InputLink(Input& input) : input_(input), background_(input) {}

  using RedisLink::pipeline;
  std::vector<RedisReply> pipeline(std::span<const RedisCommand> commands,
                                   const RedisCall& /*how*/) override {
    const std::lock_guard guard(mutex_);
    Input& input = std::this_thread::get_id() == caller_ ? input_ : background_;
    if (input.empty()) throw Unavailable("the input has ended");
    if (input.byte() == 0xff) throw OutcomeUnknown("the reply was lost");
    std::vector<RedisReply> replies;
    for (std::size_t i = 0; i < commands.size(); ++i) replies.push_back(take_reply(input));
    return replies;
  }
  std::unique_ptr<RedisSubscription> subscribe(std::string,
                                               std::function<void(std::string_view)> on_message,
                                               std::function<void()> on_subscribed) override {
    on_message_ = std::move(on_message);
    on_subscribed();
    return std::make_unique<RedisSubscription>();
  }
  std::string where() const override { return "the input"; }

  void publish(std::string_view message) const {
    if (on_message_) on_message_(message);
  }

 private:
  const std::thread::id caller_ = std::this_thread::get_id();
  std::mutex mutex_;
  Input& input_;
  Input background_;
  std::function<void(std::string_view)> on_message_;
};

}  // namespace leasehold::fuzz
