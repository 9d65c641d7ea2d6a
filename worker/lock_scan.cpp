#include "lock_scan.hpp"

#include "leasehold/redis_link.hpp"
#include "support/log_event.hpp"
#include "support/sleep.hpp"

namespace leasehold::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

}  // namespace

LockScan::LockScan(const common::Config& config, std::shared_ptr<spdlog::logger> log)
    : uri_(config.redis),
      interval_(config.lock_scan_interval),
      log_(std::move(log)),
      status_(std::make_shared<RedisStatus>(connect_redis(uri_)->where())),
      client_(uri_, {.logger = log_}) {
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void LockScan::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    scan(stop);
    // Counted from the end of the scan: one of very many keys must not become a constant load.
    sleep_until(steady_clock::now() + interval_, stop);
  }
  finished_ = true;
}

void LockScan::scan(const std::stop_token& stop) {
  const auto began = steady_clock::now();
  std::uint64_t held = 0;
  std::uint64_t stale = 0;
  try {
    client_.visit("*", [&](const LockRecord& record) {
      ++(record.state == LockState::stale ? stale : held);
      return !stop.stop_requested();
    });
    if (stop.stop_requested()) return;
    const auto time = std::chrono::duration_cast<milliseconds>(steady_clock::now() - began);
    status_->scan_completed(held, stale, time);
    log_debug(*log_, "lock scan ended",
              {{"took_ms", time.count()}, {"held", held}, {"stale", stale}});
    outage_.over(*log_);
  } catch (const std::exception& error) {
    outage_.failed(*log_, error, status_->scan_failed(error.what()));
  }
}

}  // namespace leasehold::worker
