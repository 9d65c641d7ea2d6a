#include "report.hpp"

#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace leasehold::bench {
namespace {

std::string number(double value) {
  std::array<char, 32> text;
  const int decimals = std::abs(value) >= 1000 ? 0 : 2;
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

bool missed(const Result& result) {
  return result.goal == Goal::at_least ? result.ratio < result.target
                                       : result.ratio > result.target;
}

const char* to_string(Goal goal) { return goal == Goal::at_least ? "at least" : "at most"; }

/// With four digits: a benchmark is not more precise.
double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  const double unit = std::pow(10, std::floor(std::log10(std::abs(value))) - 3);
  return unit < 1 ? std::round(value / unit) / std::round(1 / unit)
                  : std::round(value / unit) * unit;
}

}  // namespace

Progress::Progress() : visible_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() { show(""); }

void Progress::show(std::string_view what) {
  if (visible_) std::cerr << "\r\x1b[K" << what << std::flush;
}

void print_table(const std::vector<Result>& results) {
  const char* const line = "%-26s %14s %14s %8s\n";
  std::printf(line, "case", "ours", "reference", "ratio");
  for (const auto& result : results) {
    std::printf(line, result.name.c_str(), number(result.ours).c_str(),
                number(result.reference).c_str(), number(result.ratio).c_str());
  }
  for (const auto& result : results) {
    std::printf("\n%s: %s, reference: %s", result.name.c_str(), result.unit.c_str(),
                result.reference_name.c_str());
    if (result.target > 0) {
      std::printf(", target %s %s%s", to_string(result.goal), number(result.target).c_str(),
                  missed(result) ? " (missed)" : "");
    }
    std::printf("\n");
    for (const auto& [name, value] : result.extra) {
      std::printf("  %s %s", name.c_str(), number(value).c_str());
      for (const auto& [limited, limit] : result.at_most) {
        if (limited != name) continue;
        std::printf(", target at most %s%s", number(limit).c_str(),
                    value > limit ? " (missed)" : "");
      }
      std::printf("\n");
    }
  }
  std::fflush(stdout);
}

void write_json(const std::vector<Result>& results, const std::filesystem::path& file) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& result : results) {
    nlohmann::ordered_json object{
        {"case", result.name},
        {"unit", result.unit},
        {"ours", rounded(result.ours)},
        {"reference", rounded(result.reference)},
        {"reference_name", result.reference_name},
        {"ratio", rounded(result.ratio)},
    };
    if (result.target > 0) {
      object["target"] = result.target;
      object["target_is"] = to_string(result.goal);
    }
    for (const auto& [name, value] : result.extra) object[name] = rounded(value);
    for (const auto& [name, limit] : result.at_most) object["at_most"][name] = limit;
    list.push_back(std::move(object));
  }
  std::ofstream out(file);
  out << list.dump(2) << "\n";
  if (!out.flush()) throw std::runtime_error("cannot write " + file.string());
}

}  // namespace leasehold::bench
