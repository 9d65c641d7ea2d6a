#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

struct redisContext;

namespace leasehold::bench {

/// The reference: the cheapest possible lock in Redis. It uses hiredis with one connection and one
/// round trip for each call, without tokens, records or handling of lost replies.
class RawRedisLock {
 public:
  RawRedisLock(const std::string& host, int port);
  ~RawRedisLock();

  /// SET NX PX. False if the lock is taken.
  bool try_acquire(std::string_view key, std::string_view owner, std::chrono::milliseconds ttl);
  /// The same. Throws if the lock is taken.
  void acquire(std::string_view key, std::string_view owner, std::chrono::milliseconds ttl);
  /// A bare round trip.
  void ping();
  /// Compare and delete, by EVALSHA.
  void release(std::string_view key, std::string_view owner);
  /// GET, then SET of the next number. Returns that.
  long long read_and_write_next(const std::string& key);
  /// Compare and PEXPIRE, by EVALSHA.
  void renew(std::string_view key, std::string_view owner, std::chrono::milliseconds ttl);

 private:
  struct FreeContext {
    void operator()(redisContext* context) const noexcept;
  };
  std::string load(std::string_view script);
  void expect_one(std::string_view what, void* reply) const;

  std::unique_ptr<redisContext, FreeContext> context_;
  std::string release_sha_;
  std::string renew_sha_;
};

}  // namespace leasehold::bench
