#include "await.hpp"

#include <chrono>
#include <stdexcept>
#include <thread>

namespace leasehold::harness {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::steady_clock;

std::string missing_or_thrown(const std::function<std::string()>& missing) {
  try {
    return missing();
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

void await(const std::string& what, const std::function<std::string()>& missing) {
  const auto deadline = steady_clock::now() + minutes{2};
  while (true) {
    // Before asking: there is always one question after the last sleep.
    const bool last = steady_clock::now() >= deadline;
    const std::string answer = missing_or_thrown(missing);
    if (answer.empty()) return;
    if (last) throw std::runtime_error(what + ": not within two minutes (" + answer + ")");
    std::this_thread::sleep_for(milliseconds{10});
  }
}

}  // namespace leasehold::harness
