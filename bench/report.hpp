#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace leasehold::bench {

/// Which side of its target a ratio should be on.
enum class Goal { at_least, at_most };

/// What one case found.
struct Result {
  std::string name;
  std::string unit;
  double ours = 0;
  double reference = 0;
  std::string reference_name;
  double ratio = 0;
  double target = 0;  ///< of the ratio; 0: there is none
  Goal goal = Goal::at_least;
  std::vector<std::pair<std::string, double>> extra;      ///< more fields, by name
  std::vector<std::pair<std::string, double>> at_most{};  ///< limits of such fields, by name
};

/// Shows the progress in one line that is overwritten. Silent unless stderr is a terminal.
class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(std::string_view what);

 private:
  const bool visible_;
};

/// Prints `case, ours, reference, ratio` on stdout, and the other findings below.
void print_table(const std::vector<Result>& results);

/// A list of objects with `case, unit, ours, reference, reference_name, ratio`, `target` if there
/// is one, the extra fields, and `at_most` with their limits if some have one.
void write_json(const std::vector<Result>& results, const std::filesystem::path& file);

}  // namespace leasehold::bench
