#include "redis_endpoint.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace leasehold::harness {

RedisEndpoint::RedisEndpoint(RedisAddress address) : address_(std::move(address)) {}

std::string RedisEndpoint::uri_through(int port) const {
  std::string uri = "redis://";
  if (!address_.password.empty()) uri += address_.user + ":" + address_.password + "@";
  uri += address_.host + ":" + std::to_string(port);
  if (address_.database != 0) uri += "/" + std::to_string(address_.database);
  return uri;
}

RedisReply RedisEndpoint::command(const std::vector<std::string>& words) const {
  const std::scoped_lock hold{mutex_};
  // Only using a connection shows that it is from before a restart. So a probe is sent first, which
  // may be sent twice; the command may not.
  if (client_) {
    try {
      client_->command({"PING"});
    } catch (const std::exception&) {
      client_.reset();
    }
  }
  if (!client_) client_ = std::make_unique<RespClient>(address_);
  try {
    return client_->command(words);
  } catch (...) {
    client_.reset();  // a late reply must not be taken for the next one
    throw;
  }
}

std::vector<std::string> RedisEndpoint::keys(const std::string& pattern) const {
  const RedisReply reply = command({"KEYS", pattern});
  if (reply.is_error()) throw std::runtime_error("KEYS: " + reply.string);
  std::vector<std::string> result;
  for (const auto& element : reply.elements) result.push_back(element.string);
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace leasehold::harness
