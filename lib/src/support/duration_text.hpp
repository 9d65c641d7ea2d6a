#pragma once

#include <chrono>
#include <string>

namespace leasehold::inline v0 {

/// A time for messages, exact and in the largest unit that is: 20 ms, 5 s, 10 min, 24 h, 365 days.
inline std::string duration_text(std::chrono::milliseconds time) {
  using namespace std::chrono;
  const auto is_whole = [time](milliseconds unit) {
    return time != milliseconds{0} && time % unit == milliseconds{0};
  };
  const auto text = [time](milliseconds unit, const char* name) {
    return std::to_string(time / unit) + name;
  };
  if (is_whole(hours{24}) && time >= hours{48}) return text(hours{24}, " days");
  if (is_whole(hours{1})) return text(hours{1}, " h");
  if (is_whole(minutes{1})) return text(minutes{1}, " min");
  if (is_whole(seconds{1})) return text(seconds{1}, " s");
  return text(milliseconds{1}, " ms");
}

}  // namespace leasehold::inline v0
