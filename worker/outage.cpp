#include "outage.hpp"
#include "support/log_event.hpp"

namespace leasehold::worker {

std::string Outage::hint_for(const std::exception& error) {
  const auto* refused = dynamic_cast<const ServerRefused*>(&error);
  if (refused == nullptr) return "check that it is running and that the address is right";
  switch (refused->reason()) {
    case ServerRefused::Reason::no_schema:
      return "run migrate";
    case ServerRefused::Reason::newer_schema:
      return "update leaseholdd";
    case ServerRefused::Reason::authentication:
      return "correct the user or the password";
    case ServerRefused::Reason::certificate:
      return "correct ca, cert, key or server_name in the URI";
    case ServerRefused::Reason::permission:
      return "grant the rights named in docs/operations.md";
    case ServerRefused::Reason::read_only:
      return "point it at the primary";
    default:
      return "see the error";
  }
}

void Outage::failed(spdlog::logger& log, const std::exception& error, const Problem& problem) {
  std::string hint = hint_for(error);
  if (since_ && hint == hint_) {
    log_debug(log, events_.still_fails, {{"error", problem.error}});
    return;
  }
  since_ = problem.since;
  hint_ = std::move(hint);
  log_warn(log, events_.failed, {{"error", problem.error}, {"hint", hint_}});
}

void Outage::over(spdlog::logger& log) {
  if (!since_) return;
  const auto time = std::chrono::steady_clock::now() - since_->steady;
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time);
  log_info(log, events_.works_again, {{"failing_for_ms", ms.count()}});
  since_.reset();
}

}  // namespace leasehold::worker
