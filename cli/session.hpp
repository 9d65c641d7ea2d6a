#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "stores.hpp"
#include "terminal.hpp"

namespace leasehold::cli {

/// What a command works with.
struct Session {
  const Stores& stores;
  bool json = false;  ///< the answer is for a program
  bool yes = false;   ///< the user has confirmed in advance
  Terminal terminal;

  /// Asks whether to go on. Throws Failure if the answer is no, or if nobody can be asked.
  void confirm(const std::string& question) const;
  /// Writes an object to standard output.
  static void print(const nlohmann::ordered_json& json);
  static void print_version(bool json);
};

/// Writes an array to standard output, one element after the other. The result is what
/// Session::print() would write.
class JsonArrayPrinter {
 public:
  void add(const nlohmann::ordered_json& element);
  /// Closes the array.
  void end() const;

 private:
  bool empty_ = true;
};

}  // namespace leasehold::cli
