#include "peers/results.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "duel.hpp"

namespace leasehold::bench {
namespace {

struct Range {
  double least;
  double most;
};

Range range_of(const Row& row) {
  const auto [least, most] = std::minmax_element(row.values.begin(), row.values.end());
  return {*least, *most};
}

double spread_of(const Row& row) {
  const Range range = range_of(row);
  return row.figure.value > 0 ? (range.most - range.least) / row.figure.value : 0;
}

/// With four digits: a benchmark is not more precise.
double rounded(double value) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return std::stod(text.data());
}

std::string text_of(double value) {
  std::array<char, 32> text;
  const int decimals = std::abs(value) >= 100 ? 0 : 2;
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

}  // namespace

void Results::add(const std::string& system, const Figure& figure) {
  const auto row = std::find_if(rows_.begin(), rows_.end(), [&](const Row& candidate) {
    return candidate.figure.name == figure.name && candidate.system == system;
  });
  if (row != rows_.end()) {
    row->values.push_back(figure.value);
  } else {
    rows_.push_back({figure, system, {figure.value}, 0});
  }
}

std::vector<Row> Results::rows(const std::vector<std::string>& systems) const {
  std::vector<std::string> names;
  for (const Row& row : rows_) {
    if (std::find(names.begin(), names.end(), row.figure.name) == names.end()) {
      names.push_back(row.figure.name);
    }
  }
  std::vector<Row> sorted;
  for (const auto& name : names) {
    double ours = 0;
    for (const auto& system : systems) {
      for (Row row : rows_) {
        if (row.figure.name != name || row.system != system) continue;
        row.figure.value = median(row.values);
        if (system == "ours") ours = row.figure.value;
        sorted.push_back(std::move(row));
      }
    }
    for (Row& row : sorted) {
      if (row.figure.name == name && row.figure.value > 0) {
        row.ours_over_it = ours / row.figure.value;
      }
    }
  }
  return sorted;
}

void print_peers(const std::vector<Row>& rows) {
  const char* const line = "%-28s %-16s %12s %-10s %7s %12s  %s\n";
  std::printf(line, "case", "system", "value", "unit", "spread", "ours_over_it", "");
  for (const Row& row : rows) {
    const double edge =
        row.figure.better == Better::higher ? row.ours_over_it : 1 / row.ours_over_it;
    const bool behind = row.system != "ours" && row.ours_over_it > 0 && edge < 1;
    std::printf(line, row.figure.name.c_str(), row.system.c_str(),
                text_of(row.figure.value).c_str(), row.figure.unit.c_str(),
                (text_of(100 * spread_of(row)) + "%").c_str(), text_of(row.ours_over_it).c_str(),
                (row.figure.note + (behind ? "we are behind" : "")).c_str());
  }
  std::fflush(stdout);
}

void write_peers(const std::vector<Row>& rows, const std::filesystem::path& file) {
  auto list = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    const Range range = range_of(row);
    nlohmann::ordered_json object{
        {"case", row.figure.name},
        {"system", row.system},
        {"value", rounded(row.figure.value)},
        {"unit", row.figure.unit},
        {"ours_over_it", rounded(row.ours_over_it)},
        {"better", row.figure.better == Better::higher ? "higher" : "lower"},
        {"min", rounded(range.least)},
        {"max", rounded(range.most)},
        {"spread", rounded(spread_of(row))},
        {"repeats", row.values.size()},
    };
    if (!row.figure.note.empty()) object["note"] = row.figure.note;
    list.push_back(std::move(object));
  }
  std::ofstream out(file);
  out << list.dump(2) << "\n";
  if (!out.flush()) throw std::runtime_error("cannot write " + file.string());
}

}  // namespace leasehold::bench
