#include "failure.hpp"

#include <iostream>
#include <nlohmann/json.hpp>

#include "leasehold/errors.hpp"
#include "text.hpp"

namespace leasehold::cli {
namespace {

/// What the user can do about a refusal of the store.
std::string advice(const ServerRefused& error) {
  switch (error.reason()) {
    case ServerRefused::Reason::no_schema:
      return "Create the tables with: leasehold migrate";
    case ServerRefused::Reason::newer_schema:
      return "Install a newer leasehold";
    case ServerRefused::Reason::authentication:
      return "Check the user and the password in the URI";
    case ServerRefused::Reason::certificate:
      return "Check the options ca, cert, key and server_name of the URI";
    case ServerRefused::Reason::permission:
      return "Grant this right to the user in the URI, or use another user";
    case ServerRefused::Reason::read_only:
      return "Use the primary, not a replica";
    default:
      return error.transient() ? "Try again shortly" : "";
  }
}

}  // namespace

Failure as_failure(const std::exception& error) {
  if (const auto* failure = dynamic_cast<const Failure*>(&error)) return *failure;
  if (dynamic_cast<const InvalidArgument*>(&error) != nullptr) {
    return {ExitCode::misused, error.what()};
  }
  if (dynamic_cast<const Unavailable*>(&error) != nullptr) {
    return {ExitCode::unreachable, error.what(),
            "Check that the server is up and the address is right. Nothing was done, so it is safe "
            "to retry"};
  }
  if (dynamic_cast<const OutcomeUnknown*>(&error) != nullptr) {
    return {ExitCode::unknown, error.what(), "It may have happened, so check before you retry"};
  }
  if (const auto* refused = dynamic_cast<const ServerRefused*>(&error)) {
    return {ExitCode::failed, error.what(), advice(*refused)};
  }
  return {ExitCode::failed, error.what()};
}

Failure failure_in_the_middle(const std::exception& error, const std::string& done) {
  const Failure failure = as_failure(error);
  switch (failure.code()) {
    case ExitCode::unreachable:
      return {failure.code(), failure.what(),
              done + "; the rest was not done, so it is safe to retry"};
    case ExitCode::unknown:
      return {failure.code(), failure.what(),
              done + "; the next one may have been done too, so check before you retry"};
    default:
      return {
          failure.code(), failure.what(),
          done + "; the rest was not done" + (failure.hint().empty() ? "" : ". " + failure.hint())};
  }
}

ExitCode report(const Failure& failure, const std::string& command, bool json) {
  if (json) {
    const nlohmann::ordered_json object{{"error", failure.what()},
                                        {"hint", failure.hint()},
                                        {"exit_code", static_cast<int>(failure.code())}};
    std::cerr << object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
    return failure.code();
  }
  std::cerr << "leasehold: " << printable(failure.what()) << "\n";
  if (!failure.hint().empty()) std::cerr << printable(failure.hint()) << "\n";
  if (failure.code() == ExitCode::misused) std::cerr << "See " << command << " --help\n";
  return failure.code();
}

}  // namespace leasehold::cli
