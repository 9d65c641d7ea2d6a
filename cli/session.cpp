#include "session.hpp"

#include <iostream>

#include "failure.hpp"
#include "leasehold/version.hpp"

namespace leasehold::cli {

namespace {

std::string text_of(const nlohmann::ordered_json& json, int indentation) {
  // Texts from a store may be in any encoding.
  return json.dump(indentation, ' ', false, nlohmann::json::error_handler_t::replace);
}

constexpr int on_one_line = -1;

/// A member on each line, after this indentation.
std::string record_of(const nlohmann::ordered_json& object, const std::string& indentation) {
  std::string text = "{";
  const char* separator = "\n";
  for (const auto& [name, value] : object.items()) {
    text += separator + indentation + "  " + text_of(name, on_one_line) + ": " +
            text_of(value, on_one_line);
    separator = ",\n";
  }
  return text + "\n" + indentation + "}";
}

}  // namespace

void Session::confirm(const std::string& question) const {
  if (yes) return;
  if (!can_ask()) {
    throw Failure(ExitCode::misused, "this needs confirmation, and there is nobody to ask",
                  "Add --yes if you are sure");
  }
  if (!ask(question)) throw Failure(ExitCode::failed, "not confirmed; nothing was done");
}

void Session::print(const nlohmann::ordered_json& json) { std::cout << text_of(json, 2) << "\n"; }

void Session::print_record(const nlohmann::ordered_json& object) {
  std::cout << record_of(object, "") << "\n";
}

void Session::print_version(bool json) {
  if (json) {
    print({{"version", version()}});
  } else {
    std::cout << "leasehold " << version() << "\n";
  }
}

void JsonArrayPrinter::add(const nlohmann::ordered_json& object) {
  std::cout << (empty_ ? "[\n  " : ",\n  ") << record_of(object, "  ");
  empty_ = false;
}

void JsonArrayPrinter::end() const { std::cout << (empty_ ? "[]\n" : "\n]\n"); }

}  // namespace leasehold::cli
