// What is read back from the keys of a lock, which any program with access to the server can write.
#include "redis/lock_value.hpp"

#include <nlohmann/json.hpp>

#include "redis/lock_replies.hpp"
#include "support/utf8.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace leasehold::fuzz {
namespace {

using redis::read_lock_value;
using std::chrono::milliseconds;

RedisReply integer_reply(std::int64_t value) {
  return {.type = RedisReply::Type::integer, .integer = value};
}

redis::ServerView take_view(Input& input) {
  const milliseconds pttl{input.integer()};
  const FencingToken counter = redis::to_token(integer_reply(input.integer()));
  return {pttl, counter,
          redis::to_time(integer_reply(input.integer()), integer_reply(input.integer()))};
}

void read_anything(Input input) {
  const redis::ServerView view = take_view(input);
  const milliseconds end{input.integer()};
  const std::string_view text = input.rest();
  const auto lock = read_lock_value("name", text, view);
  expect(lock.record.name == "name", "a record has the name of its lock");
  expect(lock.record.remaining >= milliseconds{0}, "no time remains less than none");
  redis::read_shared_holder("name", text, end, view);
  redis::read_waiter(text);
}

void write_and_read(Input input) {
  constexpr std::int64_t day = 86'400'000;
  const auto up_to = [&](std::int64_t most) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(input.integer()) %
                                     static_cast<std::uint64_t>(most + 1));
  };
  static const redis::LockValueWriter writer{RunnerId::of_this_process(), "client",
                                             milliseconds{day}, milliseconds{day}};
  const std::string owner(redis::owner_size, static_cast<char>('1' + up_to(8)));
  const milliseconds ttl{up_to(day)};
  const milliseconds held{up_to(365 * day)};
  const auto renewals = static_cast<std::uint64_t>(up_to(INT64_MAX - 1));
  const FencingToken token{static_cast<std::uint64_t>(up_to(INT64_MAX - 1))};
  const redis::ServerView view{milliseconds{day + up_to(day)}, FencingToken{7},
                               redis::to_time(integer_reply(up_to(4'000'000'000)), {})};
  std::map<std::string, std::string> metadata;
  if (const std::string text(input.rest()); is_utf8(text)) metadata["key"] = metadata[text] = text;
  const std::string json = metadata.empty() ? std::string{} : nlohmann::json(metadata).dump();

  const std::string value = writer.write({.owner = owner,
                                          .metadata = json,
                                          .ttl = ttl,
                                          .heartbeat_every = milliseconds{5},
                                          .renewals = renewals,
                                          .held = held,
                                          .token = token});
  const auto lock = read_lock_value("name", value, view);
  const LockRecord& record = lock.record;
  expect(lock.owner == owner && lock.confirmed && lock.linger == milliseconds{day},
         "the owner is read as it was written");
  expect(record.runner == RunnerId::of_this_process().str() && record.metadata == metadata,
         "runner and metadata are read as they were written");
  expect(record.ttl == ttl && record.renewals == renewals &&
             record.token == (token.value != 0 ? token : view.counter),
         "ttl, renewals and token are read as they were written");
  expect(record.age - record.heartbeat_age == held && record.remaining == view.pttl - lock.linger,
         "times are read as they were written");
}

}  // namespace
}  // namespace leasehold::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace leasehold::fuzz;
  const Input input{as_text(data, size)};
  read_anything(input);
  write_and_read(input);
  return 0;
}
