#include "tasks/runtime/renewer.hpp"

#include <algorithm>

#include "support/backoff.hpp"
#include "support/sleep.hpp"
#include "tasks/accepted.hpp"

namespace leasehold::inline v0 {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// An answer that takes longer is of no use: better to try again on another connection.
milliseconds patience(milliseconds lease) { return std::max(lease / 4, milliseconds{250}); }

}  // namespace

Renewer::Renewer(const WorkerContext& context)
    : context_(context),
      interval_(context.options.lease / 3),
      store_(context.core.store->twin(patience(context.options.lease))) {}

void Renewer::run(const std::stop_token& stop) {
  Backoff again(std::clamp(interval_ / 10, milliseconds{10}, milliseconds{1'000}), interval_ / 2);
  while (!stop.stop_requested()) {
    context_.board.wait_for_leases(stop);
    sleep_for(interval_, stop);
    for (bool renewed = false; !renewed && !stop.stop_requested();) {
      try {
        renew_once(interval_ / 2);
        renewed = true;
        again.reset();
      } catch (const Error& error) {
        context_.outage.failed("renew", error);
        sleep_for(again.next(), stop);
      }
    }
  }
}

void Renewer::renew_once(milliseconds age) {
  const auto sent = steady_clock::now();  // before the call: latency must shorten trust
  const auto runs = context_.board.begin_renewal(sent - age);
  if (runs.empty()) return;
  std::vector<LeaseKey> keys;
  keys.reserve(runs.size());
  for (const TaskRunPtr& run : runs) keys.push_back(run->task.key);

  const milliseconds duration = context_.options.lease;
  Accepted accepted;
  try {
    accepted = Accepted(keys, store_->extend(keys, duration));
  } catch (const Error&) {
    context_.board.end_renewal(runs, nullptr, {});
    throw;
  }
  context_.outage.over();
  context_.core.telemetry.extended.add(accepted.size());
  context_.telemetry.renewed(accepted.size());
  const auto stale = context_.board.end_renewal(runs, &accepted, trusted_until(sent, duration));
  for (const TaskRunPtr& run : stale) context_.lose(*run, *store_, "renew");
}

}  // namespace leasehold::inline v0
