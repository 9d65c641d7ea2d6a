#include "sqlite/database/machine_clock.hpp"

#include <ctime>
#include <fstream>

#include "leasehold/errors.hpp"

namespace leasehold::inline v0::sqlite {
namespace {

std::chrono::microseconds read_clock(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return std::chrono::microseconds{time.tv_sec * 1'000'000 + time.tv_nsec / 1000};
}

}  // namespace

std::chrono::microseconds since_boot_in_us() { return read_clock(CLOCK_BOOTTIME); }

std::chrono::milliseconds since_boot() {
  return std::chrono::floor<std::chrono::milliseconds>(since_boot_in_us());
}

std::chrono::microseconds wall_clock() { return read_clock(CLOCK_REALTIME); }

const std::string& boot_id() {
  static const std::string id = [] {
    constexpr auto path = "/proc/sys/kernel/random/boot_id";
    std::string line;
    // Without it, a grant or lease from before the last boot would look like a new one.
    if (!std::getline(std::ifstream(path), line) || line.empty()) {
      throw Unavailable(std::string("cannot read ") + path + ", which embedded stores need");
    }
    return line;
  }();
  return id;
}

}  // namespace leasehold::inline v0::sqlite
