// A hostile server on the connection of a subscription, whose thread nobody else looks after.
#include <spdlog/logger.h>

#include <memory>

#include "locks/lock_message.hpp"
#include "redis/subscription.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/resp_mutator.hpp"
#include "tests/support/hostile_server.hpp"

namespace leasehold::fuzz {
namespace {

void check(std::string_view bytes) {
  static const auto no_log = std::make_shared<spdlog::logger>("none");
  static testing::HostileServer server;
  server.say(testing::HostileServer::good_greeting + std::string(bytes));
  const redis::Subscription subscription{
      std::make_shared<redis::Destination>(redis::RedisUri::parse(server.uri()),
                                           std::chrono::milliseconds{1'000}),
      "channel", [](std::string_view text) { parse_lock_message(text); }, [] {}, no_log};
  server.wait_until_client_left();
}

}  // namespace
}  // namespace leasehold::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  leasehold::fuzz::check(leasehold::fuzz::as_text(data, size));
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  return leasehold::fuzz::mutate_replies(data, size, most, seed, 0);
}
