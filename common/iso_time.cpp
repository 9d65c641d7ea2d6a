#include "common/iso_time.hpp"

#include <cstdio>
#include <ctime>

namespace leasehold::common {

using std::chrono::milliseconds;
using std::chrono::system_clock;

std::string iso_time(system_clock::time_point time) {
  const auto ms = std::chrono::floor<milliseconds>(time.time_since_epoch());
  const auto seconds = std::chrono::floor<std::chrono::seconds>(ms);
  const std::time_t whole = seconds.count();
  std::tm parts{};
  ::gmtime_r(&whole, &parts);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts);
  char text[48];
  std::snprintf(text, sizeof text, "%s.%03dZ", date, static_cast<int>((ms - seconds).count()));
  return text;
}

std::optional<system_clock::time_point> parse_iso_time(std::string_view text) {
  const std::string copy(text);
  std::tm parts{};
  const char* rest = ::strptime(copy.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr) rest = ::strptime(copy.c_str(), "%Y-%m-%d %H:%M:%S", &parts);
  if (rest == nullptr) return std::nullopt;
  milliseconds fraction{0};
  if (*rest == '.') {
    int scale = 100;
    for (++rest; *rest >= '0' && *rest <= '9'; ++rest, scale /= 10) {
      fraction += milliseconds{(*rest - '0') * scale};
    }
  }
  std::chrono::minutes offset{0};
  if (*rest == '+' || *rest == '-') {
    int hours = 0;
    int minutes = 0;
    int length = 0;
    if (std::sscanf(rest + 1, "%2d:%2d%n", &hours, &minutes, &length) != 2 || length != 5)
      return {};
    offset = (*rest == '+' ? 1 : -1) * std::chrono::minutes{hours * 60 + minutes};
    rest += 1 + length;
  } else if (*rest == 'Z') {
    ++rest;
  } else {
    return std::nullopt;  // without a time zone the time is ambiguous
  }
  if (*rest != '\0') return std::nullopt;
  // The clock counts nanoseconds in 64 bits: a year outside of this range would overflow it.
  if (parts.tm_year + 1900 < 1678 || parts.tm_year + 1900 > 2261) return std::nullopt;
  // strptime accepts February 31, which timegm turns into a day of March.
  const std::tm asked = parts;
  const std::time_t whole = ::timegm(&parts);
  if (parts.tm_mday != asked.tm_mday) return std::nullopt;
  return system_clock::from_time_t(whole) + fraction - offset;
}

}  // namespace leasehold::common
