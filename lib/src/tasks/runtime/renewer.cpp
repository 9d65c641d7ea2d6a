#include "tasks/runtime/renewer.hpp"

#include <algorithm>

#include "support/backoff.hpp"
#include "support/sleep.hpp"

namespace leasehold::inline v0 {
namespace {

using std::chrono::milliseconds;

/// If the answer takes longer, it is better to try again on another connection.
milliseconds patience(milliseconds lease) { return std::max(lease / 4, milliseconds{250}); }

}  // namespace

Renewer::Renewer(const WorkerContext& context)
    : context_(context),
      interval_(context.options.lease / 3),
      store_(context.core.store->twin(patience(context.options.lease))),
      writes_(*store_, context.core.telemetry, *context.core.logger, LostReply::report) {}

void Renewer::run(const std::stop_token& stop) {
  Backoff again(std::clamp(interval_ / 10, milliseconds{10}, milliseconds{1'000}), interval_ / 2);
  while (!stop.stop_requested()) {
    context_.board.wait_for_leases(stop);
    sleep_for(interval_, stop);
    for (bool renewed = false; !renewed && !stop.stop_requested();) {
      try {
        renewed = renew_once(interval_ / 2) == Done::all;
      } catch (const std::exception& error) {
        context_.outage.failed("renew", error);
      }
      if (!renewed) sleep_for(again.next(), stop);
    }
    again.reset();
  }
}

Renewer::Done Renewer::renew_once(milliseconds age) {
  const auto runs = context_.board.begin_renewal(BootClock::now() - age);
  if (runs.empty()) return Done::all;
  LeaseWrites::Renewal renewal;
  try {
    std::vector<HeldLease*> leases;
    leases.reserve(runs.size());
    for (const TaskRunPtr& run : runs) leases.push_back(run.get());
    renewal = writes_.extend(leases, context_.options.lease);
  } catch (const std::exception&) {
    context_.board.end_renewal(runs, nullptr);
    throw;
  }
  context_.outage.over();
  context_.telemetry.renewed(static_cast<std::size_t>(
      std::count(renewal.each.begin(), renewal.each.end(), WriteResult::accepted)));
  const auto stale = context_.board.end_renewal(runs, &renewal);
  LossReasons why(*store_);
  for (const TaskRunPtr& run : stale) context_.lose(*run, why, "renew");
  return std::find(renewal.each.begin(), renewal.each.end(), WriteResult::undecided) ==
                 renewal.each.end()
             ? Done::all
             : Done::not_all;
}

}  // namespace leasehold::inline v0
