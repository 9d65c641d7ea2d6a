// Replies of every shape to each call of the lock store. The first byte says which call is made.
#include "leasehold/errors.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/input_link.hpp"
#include "tests/fuzz/store_calls.hpp"

namespace leasehold::fuzz {
namespace {

void check(std::string_view bytes) {
  Input input{bytes};
  const int which = input.byte() % 15;
  RedisLockStore store = store_on(std::make_shared<InputLink>(input));
  try {
    call(store, which);
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
