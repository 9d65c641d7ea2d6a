#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace leasehold::bench {

enum class Better { higher, lower };

/// One figure of one run of a case.
struct Figure {
  std::string name;  ///< of the row; a case may give several
  std::string unit;
  Better better = Better::higher;
  double value = 0;
  std::string note = {};  ///< if it is not what the others are
};

/// A row of the comparison: one figure of one system, over all repeats.
struct Row {
  Figure figure;  ///< its value is the median
  std::string system;
  std::vector<double> values;
  double ours_over_it = 0;  ///< 0 if we did not take part
};

/// Collects figures in the order they first appear.
class Results {
 public:
  void add(const std::string& system, const Figure& figure);
  /// With medians and ratios; systems of a row in the order given.
  std::vector<Row> rows(const std::vector<std::string>& systems) const;

 private:
  std::vector<Row> rows_;
};

void print_peers(const std::vector<Row>& rows);
/// A list of objects `case, system, value, unit, ours_over_it, better, min, max, spread, repeats`.
void write_peers(const std::vector<Row>& rows, const std::filesystem::path& file);

}  // namespace leasehold::bench
