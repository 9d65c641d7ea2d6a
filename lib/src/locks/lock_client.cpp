#include "leasehold/lock_client.hpp"

#include <algorithm>

#include "leasehold/errors.hpp"
#include "locks/acquire.hpp"
#include "locks/acquire_all.hpp"
#include "locks/lock_core.hpp"
#include "locks/validation.hpp"
#include "redis/hiredis_link.hpp"
#include "redis/redis_lock_store.hpp"
#include "redis/redis_uri.hpp"
#include "sqlite/locks/sqlite_lock_store.hpp"
#include "support/default_logger.hpp"
#include "support/quote.hpp"

namespace leasehold::inline v0 {
namespace {

/// Shows only what can be a scheme: anything else may contain a password.
std::string unknown_scheme(std::string_view uri) {
  const auto end = uri.find("://");
  const bool has_scheme = end != std::string_view::npos && end == uri.find_first_of(":@/");
  return has_scheme ? "unknown scheme " + in_quotes(uri.substr(0, end)) : "the scheme is missing";
}

std::unique_ptr<LockStore> redis_store(std::shared_ptr<RedisLink> link,
                                       std::shared_ptr<RedisLink> renewal_link,
                                       const RunnerId& runner, const LockClientOptions& options) {
  return std::make_unique<redis::RedisLockStore>(
      std::move(link), std::move(renewal_link),
      redis::RedisLockStore::Options{runner, options.keep_stale_records, options.keep_counters,
                                     options.redis.command_timeout, options.replicas});
}

/// The scheme of the URI chooses the store.
std::unique_ptr<LockStore> open_store(std::string_view uri, const RunnerId& runner,
                                      const LockClientOptions& options) {
  if (const auto place = sqlite::parse_sqlite_uri(uri)) {
    if (options.replicas.needed != RedisReplicas::Needed::none) {
      throw InvalidArgument(
          "replicas.needed must be none for a sqlite: URI, which has no replicas");
    }
    return std::make_unique<sqlite::SqliteLockStore>(
        *place, sqlite::SqliteLockStore::Options{runner, options.keep_stale_records,
                                                 options.keep_counters, options.sqlite.timeout});
  }
  if (!uri.starts_with("redis")) {
    throw InvalidArgument("lock URI: " + unknown_scheme(uri) + "; expected " +
                          std::string(redis::redis_uri_forms) + "; or " +
                          std::string(sqlite::sqlite_uri_forms));
  }
  const auto logger = options.logger ? options.logger : default_logger();
  auto links = redis::connect_pair(uri, options.redis, logger);
  return redis_store(std::move(links.commands), std::move(links.renewals), runner, options);
}

template <class MakeStore>
std::shared_ptr<LockCore> make_core(const LockClientOptions& options, MakeStore make_store) {
  check_keep_time("keep_stale_records", options.keep_stale_records);
  check_keep_time("keep_counters", options.keep_counters);
  check_sqlite_timeout(options.sqlite.timeout);
  check_replicas(options.replicas, options.redis.command_timeout);
  const RunnerId runner = options.runner ? *options.runner : RunnerId::of_this_process();
  return std::make_shared<LockCore>(make_store(runner), runner, options);
}

}  // namespace

LockClient::LockClient(std::string_view uri, LockClientOptions options)
    : core_(make_core(options,
                      [&](const RunnerId& runner) { return open_store(uri, runner, options); })) {}

LockClient::LockClient(std::shared_ptr<RedisLink> link, LockClientOptions options) {
  if (!link) throw InvalidArgument("LockClient: the link is null");
  redis::check_timeout("command_timeout", options.redis.command_timeout);
  auto renewal_link = link->link_for_renewals();
  if (!renewal_link) renewal_link = link;
  core_ = make_core(options, [&](const RunnerId& runner) {
    return redis_store(link, renewal_link, runner, options);
  });
}

LockClient::LockClient(LockClient&&) noexcept = default;
LockClient& LockClient::operator=(LockClient&&) noexcept = default;
LockClient::~LockClient() = default;

Acquisition LockClient::acquire(std::string_view name, const LockOptions& options,
                                std::stop_token stop) {
  check_lock_name(name);
  check_lock_options(options);
  return AcquireCall{core_, name, options, std::move(stop)}.run();
}

SetAcquisition LockClient::acquire_all(const std::vector<std::string>& names,
                                       const LockOptions& options, std::stop_token stop) {
  return AcquireAllCall{core_, names, options, std::move(stop)}.run();
}

std::optional<LockRecord> LockClient::status(std::string_view name) {
  check_lock_name(name);
  return core_->store->status(name);
}

std::vector<LockRecord> LockClient::list(std::string_view pattern) {
  std::vector<LockRecord> records;
  visit(pattern, [&](const LockRecord& record) {
    records.push_back(record);
    return true;
  });
  std::sort(records.begin(), records.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  // A walk over keys that change meanwhile may meet a key twice.
  records.erase(std::unique(records.begin(), records.end(),
                            [](const auto& a, const auto& b) { return a.name == b.name; }),
                records.end());
  return records;
}

void LockClient::visit(std::string_view pattern,
                       const std::function<bool(const LockRecord&)>& visitor) {
  check_lock_pattern(pattern);
  core_->store->visit(pattern, visitor);
}

std::vector<LockRecord> LockClient::cleanup_stale(std::string_view pattern) {
  check_lock_pattern(pattern);
  return core_->store->remove_stale(pattern);
}

std::optional<LockRecord> LockClient::force_release(std::string_view name) {
  check_lock_name(name);
  auto previous = core_->store->force_release(name);
  if (previous) core_->telemetry.record({.type = LockEventType::forced, .name = name});
  return previous;
}

LockStats LockClient::stats(StatsScope scope) {
  LockStats stats = core_->telemetry.snapshot();
  stats.heartbeats_active = core_->keep_alive.active();
  const StoreCounts counts = core_->store->counts();
  stats.waiters_evicted = counts.waiters_evicted;
  stats.busy_retries = counts.busy_retries;
  if (scope == StatsScope::process) return stats;

  LockCensus census;
  for (const LockRecord& record : list()) {
    ++census.total;
    if (record.state == LockState::stale) {
      ++census.stale;
      continue;
    }
    ++census.active;
    if (record.runner == core_->runner.str()) ++census.mine;
  }
  stats.census = census;
  return stats;
}

const RunnerId& LockClient::runner() const noexcept { return core_->runner; }

}  // namespace leasehold::inline v0
