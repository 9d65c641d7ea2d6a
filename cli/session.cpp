#include "session.hpp"

#include <iostream>

#include "failure.hpp"
#include "leasehold/version.hpp"

namespace leasehold::cli {

void Session::confirm(const std::string& question) const {
  if (yes) return;
  if (!can_ask()) {
    throw Failure(ExitCode::misused, "this needs confirmation, and there is nobody to ask",
                  "Add --yes if you are sure");
  }
  if (!ask(question)) throw Failure(ExitCode::failed, "not confirmed; nothing was done");
}

void Session::print(const nlohmann::ordered_json& json) {
  // Texts from a store may be in any encoding.
  std::cout << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
}

void Session::print_version(bool json) {
  if (json) {
    print({{"version", version()}});
  } else {
    std::cout << "leasehold " << version() << "\n";
  }
}

}  // namespace leasehold::cli
