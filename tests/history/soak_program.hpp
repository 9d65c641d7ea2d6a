#pragma once

#include <charconv>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace leasehold::testing {

/// Throws std::invalid_argument.
template <typename Number>
Number parse_number(const std::string& option, const std::string& text, Number least, Number most) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || !(value >= least && value <= most)) {
    std::ostringstream message;
    message << option << " must be " << least << " to " << most << ", got '" << text << "'";
    throw std::invalid_argument(message.str());
  }
  return value;
}

/// The main() of `./dev soak NAME`: returns what soak(parse(words)) does. What `parse` throws is a
/// mistake of the caller.
template <typename Parse, typename Soak>
int run_soak_program(const std::string& name, int argc, char** argv, Parse&& parse, Soak&& soak) {
  const std::string title = "soak " + name;
  try {
    auto options = parse(std::vector<std::string>(argv + 1, argv + argc));
    try {
      return soak(std::move(options));
    } catch (const std::exception& error) {
      std::cerr << title << ": " << error.what() << std::endl;
      return EXIT_FAILURE;
    }
  } catch (const std::exception& error) {
    std::cerr << title << ": " << error.what() << "; try ./dev " << title << " --help\n";
    return 2;
  }
}

}  // namespace leasehold::testing
