#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "tests/history/history.hpp"

namespace leasehold::testing {

/// A number that many processes change under a lock. It lives in a file that is at the same time
/// the record of all it accepted: no kill can come between a change and its record.
///
/// A read shows its token too: from then on older ones are outranked. Otherwise one who read
/// before could still write after it, and the change would be lost although no token went back.
class FencedRegister {
 public:
  enum class Guard {
    token,  ///< refuses tokens smaller than one that it has seen
    none,   ///< accepts everything: to show what is lost then
  };

  FencedRegister(const std::filesystem::path& directory, const std::string& lock, Guard guard);

  /// `who` says grant, process and thread. The value, or nothing if the token is outranked.
  std::optional<std::int64_t> read(const Event& who, std::uint64_t token) const;

  /// False if the token is outranked.
  bool write(const Event& who, std::uint64_t token, std::int64_t from, std::int64_t value) const;

 private:
  std::optional<std::int64_t> access(Event event) const;

  std::filesystem::path path_;
  std::string lock_;
  Guard guard_;
};

}  // namespace leasehold::testing
