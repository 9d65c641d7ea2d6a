// A whole client over a link whose replies are trees made from the input: everything that can be
// done with locks meets replies of every shape, in the background threads too.
#include <spdlog/logger.h>

#include <list>

#include "leasehold/errors.hpp"
#include "leasehold/locks.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace leasehold::fuzz {
namespace {

using std::chrono::milliseconds;

/// What the scripts answer, so that inputs get past the first word of a reply.
const std::array<std::string, 24> known_texts{
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
RedisReply take_reply(Input& input, int depth = 0) {
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
  std::vector<RedisReply> pipeline(std::span<const RedisCommand> commands, milliseconds) override {
    return pipeline(commands);
  }
  std::vector<RedisReply> pipeline(std::span<const RedisCommand> commands) override {
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

struct Session {
  Input& input;
  InputLink& link;
  LockClient& client;
  std::list<Lock> held;

  void keep(Acquisition acquisition) {
    if (acquisition) held.push_back(std::move(*acquisition));
  }

  LockOptions options() {
    LockOptions options;
    const unsigned kind = input.byte();
    options.on_conflict = static_cast<OnConflict>(kind % 5);
    options.wait = milliseconds{kind / 5 % 4};
    options.ttl = milliseconds{kind % 2 == 0 ? 20 : 60'000};
    options.retry = {.retries = 1, .first = milliseconds{1}};
    if (kind > 128) options.reentry = Reentry::allowed;
    return options;
  }

  void step() {
    switch (input.byte() % 16) {
      case 0:
      case 1:
        return keep(client.acquire("a", options()));
      case 2:
        return keep(SharedLock{client, "a"}.read(options()));
      case 3:
        return keep(SharedLock{client, "a"}.write(options()));
      case 4: {
        Semaphore semaphore{client, "a", 3};
        keep(semaphore.acquire(options()));
        return semaphore.resize(2);
      }
      case 5:
        client.acquire_all({"a", "b"}, {.wait = milliseconds{1}});
        return;
      case 6:
        client.status("a");
        return;
      case 7:
        client.list();
        return;
      case 8:
        client.cleanup_stale();
        return;
      case 9:
        client.force_release("a");
        return;
      case 10:
        client.stats(StatsScope::store);
        return;
      case 11:
        if (!held.empty()) held.back().extend();
        return;
      case 12:
        if (!held.empty()) held.back().downgrade();
        return;
      case 13:
        if (!held.empty()) held.pop_front();
        return;
      case 14:
        return link.publish(input.text(input.byte()));
      default:
        for (const Lock& lock : held) link.publish("taken " + lock.owner() + " a");
    }
  }
};

void check(std::string_view bytes) {
  static const auto no_log = std::make_shared<spdlog::logger>("none");
  Input input{bytes};
  const auto link = std::make_shared<InputLink>(input);
  LockClient client{link, {.logger = no_log}};
  Session session{input, *link, client, {}};
  while (!input.empty()) {
    try {
      session.step();
    } catch (const Error&) {
      // The only errors that callers have to expect. Any other ends the program.
    }
  }
}

}  // namespace
}  // namespace leasehold::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  leasehold::fuzz::check(leasehold::fuzz::as_text(data, size));
  return 0;
}
