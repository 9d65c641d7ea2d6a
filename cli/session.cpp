#include "session.hpp"

#include <iostream>

#include "failure.hpp"
#include "leasehold/version.hpp"

namespace leasehold::cli {

namespace {

std::string indented(const nlohmann::ordered_json& json) {
  // Texts from a store may be in any encoding.
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
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

void Session::print(const nlohmann::ordered_json& json) { std::cout << indented(json) << "\n"; }

void Session::print_version(bool json) {
  if (json) {
    print({{"version", version()}});
  } else {
    std::cout << "leasehold " << version() << "\n";
  }
}

void JsonArrayPrinter::add(const nlohmann::ordered_json& element) {
  std::string text = empty_ ? "[\n  " : ",\n  ";
  empty_ = false;
  // Line breaks inside of texts are escaped, so that all of these belong to the indentation.
  for (const char c : indented(element)) {
    text += c;
    if (c == '\n') text += "  ";
  }
  std::cout << text;
}

void JsonArrayPrinter::end() const { std::cout << (empty_ ? "[]\n" : "\n]\n"); }

}  // namespace leasehold::cli
