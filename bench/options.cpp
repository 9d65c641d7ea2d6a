#include "options.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iostream>

namespace leasehold::bench {
namespace {

using std::chrono::milliseconds;

constexpr double longest_seconds = 3600;

[[noreturn]] void misuse(const std::string& what) {
  std::cerr << what << "; try --help\n";
  std::exit(2);
}

void print_help(const std::string& program, const std::vector<std::string>& cases,
                const Options& defaults) {
  std::cout << "Usage: " << program << " [OPTIONS]\n\n"
            << "  --json FILE    write the results to FILE too\n"
            << "  --only CASE    run only this case; may be repeated\n"
            << "  --seconds N    time for each case, default "
            << static_cast<double>(defaults.time.count()) / 1000 << "\n"
            << "  --quick        one second for each case: to see that it runs, not how fast\n"
            << "  --help         this text\n\nCases:\n";
  for (const auto& name : cases) std::cout << "  " << name << "\n";
}

milliseconds parse_seconds(const std::string& text) {
  double seconds = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, seconds);
  if (error != std::errc{} || stop != end || !(seconds >= 0.1 && seconds <= longest_seconds)) {
    misuse("--seconds '" + text + "': allowed are 0.1 to 3600");
  }
  return milliseconds{static_cast<milliseconds::rep>(seconds * 1000)};
}

}  // namespace

bool Options::wants(std::string_view name) const {
  return only.empty() || std::find(only.begin(), only.end(), name) != only.end();
}

int Options::rounds() const { return std::max(2, static_cast<int>(time / (2 * slice))); }

Options parse_options(int argc, char** argv, const std::vector<std::string>& cases,
                      const Options& defaults) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  Options options = defaults;
  for (auto word = words.begin(); word != words.end(); ++word) {
    const auto value = [&]() -> const std::string& {
      const std::string& option = *word;
      if (++word == words.end()) misuse(option + " needs a value");
      return *word;
    };
    if (*word == "--help" || *word == "-h") {
      print_help(std::filesystem::path(argv[0]).filename(), cases, defaults);
      std::exit(0);
    } else if (*word == "--json") {
      options.json = value();
    } else if (*word == "--only") {
      const auto& name = options.only.emplace_back(value());
      if (std::find(cases.begin(), cases.end(), name) == cases.end()) {
        misuse("there is no case '" + name + "'");
      }
    } else if (*word == "--seconds") {
      options.time = parse_seconds(value());
    } else if (*word == "--quick") {
      options.time = std::chrono::seconds{1};
      options.quick = true;
    } else {
      misuse("unknown option '" + *word + "'");
    }
  }
  return options;
}

}  // namespace leasehold::bench
