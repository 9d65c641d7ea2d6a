#include "raw_redis.hpp"

#include <hiredis/hiredis.h>

#include <stdexcept>

namespace leasehold::bench {
namespace {

using std::chrono::milliseconds;

// Part of the reference. The scripts of the library are in lua/.
constexpr std::string_view release_script =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
constexpr std::string_view renew_script =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then "
    "return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";

struct FreeReply {
  void operator()(redisReply* reply) const noexcept { freeReplyObject(reply); }
};
using Reply = std::unique_ptr<redisReply, FreeReply>;

}  // namespace

void RawRedisLock::FreeContext::operator()(redisContext* context) const noexcept {
  redisFree(context);
}

RawRedisLock::RawRedisLock(const std::string& host, int port)
    : context_(redisConnect(host.c_str(), port)) {
  if (!context_ || context_->err != 0) throw std::runtime_error("the reference cannot connect");
  release_sha_ = load(release_script);
  renew_sha_ = load(renew_script);
}

RawRedisLock::~RawRedisLock() = default;

std::string RawRedisLock::load(std::string_view script) {
  const Reply reply(static_cast<redisReply*>(
      redisCommand(context_.get(), "SCRIPT LOAD %b", script.data(), script.size())));
  if (!reply || reply->type != REDIS_REPLY_STRING) {
    throw std::runtime_error("the reference cannot load its script");
  }
  return {reply->str, reply->len};
}

void RawRedisLock::expect_one(std::string_view what, void* raw) const {
  const Reply reply(static_cast<redisReply*>(raw));
  if (reply && reply->type == REDIS_REPLY_INTEGER && reply->integer == 1) return;
  throw std::runtime_error("the reference cannot " + std::string(what));
}

void RawRedisLock::ping() {
  const Reply reply(static_cast<redisReply*>(redisCommand(context_.get(), "PING")));
  if (!reply) throw std::runtime_error("the reference cannot ping");
}

long long RawRedisLock::read_and_write_next(const std::string& key) {
  const Reply read(static_cast<redisReply*>(redisCommand(context_.get(), "GET %s", key.c_str())));
  if (!read) throw std::runtime_error("the reference cannot read");
  const long long next = 1 + (read->type == REDIS_REPLY_STRING ? std::stoll(read->str) : 0);
  const Reply written(
      static_cast<redisReply*>(redisCommand(context_.get(), "SET %s %lld", key.c_str(), next)));
  if (!written) throw std::runtime_error("the reference cannot write");
  return next;
}

void RawRedisLock::acquire(std::string_view key, std::string_view owner, milliseconds ttl) {
  if (!try_acquire(key, owner, ttl)) throw std::runtime_error("the reference cannot acquire");
}

bool RawRedisLock::try_acquire(std::string_view key, std::string_view owner, milliseconds ttl) {
  const Reply reply(static_cast<redisReply*>(
      redisCommand(context_.get(), "SET %b %b NX PX %lld", key.data(), key.size(), owner.data(),
                   owner.size(), static_cast<long long>(ttl.count()))));
  if (!reply) throw std::runtime_error("the reference cannot ask for the lock");
  return reply->type == REDIS_REPLY_STATUS;
}

void RawRedisLock::release(std::string_view key, std::string_view owner) {
  expect_one("release", redisCommand(context_.get(), "EVALSHA %s 1 %b %b", release_sha_.c_str(),
                                     key.data(), key.size(), owner.data(), owner.size()));
}

void RawRedisLock::renew(std::string_view key, std::string_view owner, milliseconds ttl) {
  expect_one("renew", redisCommand(context_.get(), "EVALSHA %s 1 %b %b %lld", renew_sha_.c_str(),
                                   key.data(), key.size(), owner.data(), owner.size(),
                                   static_cast<long long>(ttl.count())));
}

}  // namespace leasehold::bench
