// Messages that anybody may publish on the channel of a client.
#include "locks/lock_message.hpp"

#include "tests/fuzz/fuzz.hpp"

namespace leasehold::fuzz {
namespace {

void check(std::string_view text) {
  const auto message = parse_lock_message(text);
  if (message) expect(to_text(*message) == text, "a message is written as it was read");
}

}  // namespace
}  // namespace leasehold::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  leasehold::fuzz::check(leasehold::fuzz::as_text(data, size));
  return 0;
}
