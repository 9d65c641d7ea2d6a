// A hostile server: the input is what it answers, in the protocol of Redis or not. The first byte
// says which call is made and how the server greets.
#include <spdlog/logger.h>

#include "leasehold/errors.hpp"
#include "redis/hiredis_link.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/resp_mutator.hpp"
#include "tests/fuzz/store_calls.hpp"
#include "tests/support/hostile_server.hpp"

namespace leasehold::fuzz {
namespace {

void check(std::string_view bytes) {
  static const auto no_log = std::make_shared<spdlog::logger>("none");
  Input input{bytes};
  const int flags = input.byte();
  const bool greets_well = (flags & 0x40) == 0;
  const bool wants_password = (flags & 0x60) == 0x60;
  static testing::HostileServer server;
  server.say((greets_well ? testing::HostileServer::good_greeting : "") +
             std::string(input.rest()));

  const auto link = redis::connect(server.uri(wants_password ? "user:secret@" : ""), {}, no_log);
  RedisLockStore store = store_on(link);
  try {
    call(store, flags & 0x0f);
  } catch (const Error&) {
    // The only errors that callers have to expect. Any other ends the program.
  }
}

}  // namespace
}  // namespace leasehold::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  leasehold::fuzz::check(leasehold::fuzz::as_text(data, size));
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  return leasehold::fuzz::mutate_replies(data, size, most, seed, 1);
}
