#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace leasehold::bench {

/// The options of a benchmark.
struct Options {
  std::filesystem::path json;               ///< empty: no file
  std::vector<std::string> only;            ///< empty: all cases
  std::chrono::milliseconds time{8'000};    ///< for each case, ours and reference together
  std::chrono::milliseconds slice{200};     ///< ours and reference take turns of this length
  bool quick = false;                       ///< also with less data
  static constexpr int warm_up_rounds = 1;  ///< not counted

  bool wants(std::string_view name) const;
  int rounds() const;
};

/// Reads the command line. Ends the program after --help (code 0) or a mistake (code 2).
Options parse_options(int argc, char** argv, const std::vector<std::string>& cases,
                      const Options& defaults = {});

}  // namespace leasehold::bench
