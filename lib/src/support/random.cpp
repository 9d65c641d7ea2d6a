#include "support/random.hpp"

#include <sys/random.h>

#include <array>
#include <cstdint>
#include <random>
#include <system_error>

namespace leasehold::inline v0 {

std::string random_hex(std::size_t bytes) {
  std::array<unsigned char, 32> raw{};
  if (bytes > raw.size()) throw std::length_error("random_hex: at most 32 bytes");
  // For up to 256 bytes getrandom() is neither interrupted nor incomplete.
  if (getrandom(raw.data(), bytes, 0) != static_cast<ssize_t>(bytes)) {
    throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  static constexpr char digits[] = "0123456789abcdef";
  std::string hex(bytes * 2, '0');
  for (std::size_t i = 0; i < bytes; ++i) {
    hex[2 * i] = digits[raw[i] >> 4];
    hex[2 * i + 1] = digits[raw[i] & 15];
  }
  return hex;
}

std::int64_t random_number() {
  std::uint64_t raw = 0;
  if (getrandom(&raw, sizeof raw, 0) != static_cast<ssize_t>(sizeof raw)) {
    throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  return static_cast<std::int64_t>(raw >> 1) | 1;
}

double random_share() {
  thread_local std::minstd_rand engine{std::random_device{}()};
  return std::uniform_real_distribution<double>{0.0, 1.0}(engine);
}

}  // namespace leasehold::inline v0
