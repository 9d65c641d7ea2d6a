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
  /// The same with each value on one line. For objects with JSON of others in them: indentation
  /// makes a payload that is deeply nested hundreds of times as long.
  static void print_record(const nlohmann::ordered_json& object);
  static void print_version(bool json);
};

/// Writes an array to standard output, one object after the other, each as by
/// Session::print_record().
class JsonArrayPrinter {
 public:
  void add(const nlohmann::ordered_json& object);
  /// Closes the array.
  void end() const;

 private:
  bool empty_ = true;
};

}  // namespace leasehold::cli
