#include "daemon.hpp"

#include <algorithm>

#include "support/duration_text.hpp"
#include "support/log_event.hpp"

namespace leasehold::worker {

using std::chrono::milliseconds;

Daemon::Daemon(common::Config config, Log& log) : log_(log) {
  if (config.listen)
    http_ = std::make_unique<HttpServer>(*config.listen, status_, log_.for_queue(""));
  start(config);
  config_ = std::move(config);
}

void Daemon::reload(common::Config config) {
  std::unique_ptr<HttpServer> http;
  const bool same_address = config.listen == config_.listen;
  if (!same_address && config.listen) {
    http = std::make_unique<HttpServer>(*config.listen, status_, log_.for_queue(""));
  }
  start(config);
  if (!same_address) {
    if (http_) {
      http_->request_stop();
      old_http_.push_back(std::move(http_));
    }
    http_ = std::move(http);
  }
  config_ = std::move(config);
  log_.change(config_.log_format, config_.log_level);
  status_.reloaded(true);
}

/// Starts what the configuration adds and stops what it no longer contains.
void Daemon::start(const common::Config& config) {
  forget_finished();
  // What is new comes first: if it cannot be created, nothing has changed yet.
  std::vector<std::unique_ptr<QueueRunner>> runners;
  for (const common::QueueConfig& queue : config.queues) {
    const bool runs = std::ranges::any_of(
        runners_, [&](const auto& runner) { return runner->config() == queue; });
    runners.push_back(runs ? nullptr
                           : std::make_unique<QueueRunner>(queue, status_.queue(queue),
                                                           log_.for_queue(queue.name)));
  }
  const bool same_redis = lock_scan_ ? lock_scan_->same_as(config) : config.redis.empty();
  std::unique_ptr<LockScan> lock_scan;
  if (!same_redis && !config.redis.empty()) {
    lock_scan = std::make_unique<LockScan>(config, log_.for_queue(""));
  }

  for (std::size_t i = 0; i < runners.size(); ++i) {
    if (runners[i]) continue;
    runners[i] = std::move(*std::ranges::find_if(runners_, [&](const auto& runner) {
      return runner && runner->config() == config.queues[i];
    }));
  }
  // Does not wait for them: one may hang.
  for (auto& runner : runners_) {
    if (!runner) continue;
    runner->request_stop();
    old_runners_.push_back(std::move(runner));
  }
  runners_ = std::move(runners);
  if (!same_redis) {
    if (lock_scan_) {
      lock_scan_->request_stop();
      old_lock_scans_.push_back(std::move(lock_scan_));
    }
    lock_scan_ = std::move(lock_scan);
  }
  std::vector<std::shared_ptr<QueueStatus>> statuses;
  for (const auto& runner : runners_) statuses.push_back(runner->status());
  status_.show(std::move(statuses), lock_scan_ ? lock_scan_->status() : nullptr);
}

/// Forgets what an earlier configuration started and has ended since.
void Daemon::forget_finished() {
  std::erase_if(old_runners_, [](const auto& runner) { return runner->finished(); });
  std::erase_if(old_lock_scans_, [](const auto& scan) { return scan->finished(); });
  std::erase_if(old_http_, [](const auto& http) { return http->finished(); });
}

void Daemon::log_settings() const {
  log_debug(*log_, "settings of the daemon",
            {{"listen", address()},
             {"log_format", config_.log_format == common::LogFormat::json ? "json" : "text"},
             {"shutdown_timeout_ms", config_.shutdown_timeout.count()}});
  if (lock_scan_) {
    log_debug(*log_, "settings of the lock scan",
              {{"where", lock_scan_->status()->state().where},
               {"lock_scan_interval_ms", config_.lock_scan_interval.count()}});
  }
  const auto or_word = [](const std::optional<milliseconds>& time, const char* word) {
    return time ? duration_text(*time) : word;
  };
  for (const common::QueueConfig& queue : config_.queues) {
    log_debug(*log_.for_queue(queue.name), "settings of a queue",
              {{"where", queue.where},
               {"schema", queue.schema},
               {"round_interval_ms", queue.round_interval.count()},
               {"max_crashes", queue.max_crashes},
               {"retain_completed", or_word(queue.retain_completed, "forever")},
               {"retain_cancelled", or_word(queue.retain_cancelled, "forever")},
               {"retain_dead", or_word(queue.retain_dead, "forever")},
               {"long_transaction_ms", queue.long_transaction.count()},
               {"count_limit", queue.count_limit},
               {"max_types", queue.max_types},
               {"connect_timeout_ms", queue.connect_timeout.count()},
               {"command_timeout_ms", queue.command_timeout.count()},
               {"max_round_age", or_word(queue.max_round_age, "auto")}});
  }
}

void Daemon::request_stop() {
  for (const auto& runner : runners_) runner->request_stop();
  if (lock_scan_) lock_scan_->request_stop();
  if (http_) http_->request_stop();
}

bool Daemon::finished() const {
  const auto all_finished = [](const auto& list) {
    return std::ranges::all_of(list, [](const auto& one) { return one->finished(); });
  };
  return all_finished(runners_) && all_finished(old_runners_) && all_finished(old_lock_scans_) &&
         all_finished(old_http_) && (!lock_scan_ || lock_scan_->finished()) &&
         (!http_ || http_->finished());
}

}  // namespace leasehold::worker
