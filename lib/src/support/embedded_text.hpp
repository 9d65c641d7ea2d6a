#pragma once

#include <string_view>

namespace leasehold::inline v0 {

/// A .lua or .sql file of this repository, embedded at build time.
struct EmbeddedText {
  std::string_view name;
  std::string_view sha1;  ///< of the text, in hex, as Redis' EVALSHA takes it
  std::string_view text;
};

}  // namespace leasehold::inline v0
