#include "resp_client.hpp"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <memory>
#include <regex>
#include <stdexcept>
#include <system_error>

namespace leasehold::harness {
namespace {

void limit_waiting(const FileDescriptor& fd, std::chrono::milliseconds timeout) {
  timeval limit{};
  limit.tv_sec = timeout.count() / 1000;
  limit.tv_usec = (timeout.count() % 1000) * 1000;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

FileDescriptor connect_to(const std::string& host, int port, std::chrono::milliseconds timeout) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found)) {
    throw std::runtime_error("cannot resolve " + host + ": " + ::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses{found, &::freeaddrinfo};
  int error = 0;
  for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
    FileDescriptor fd{::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol)};
    limit_waiting(fd, timeout);
    if (::connect(fd.get(), a->ai_addr, a->ai_addrlen) == 0) return fd;
    error = errno;
  }
  throw std::system_error(error, std::generic_category(),
                          "connecting to " + host + ":" + std::to_string(port));
}

}  // namespace

RedisAddress RedisAddress::parse(const std::string& uri) {
  static const std::regex form{
      R"(redis://(?:([^:@/]*)(?::([^@/]*))?@)?([^:@/]+)(?::(\d+))?(?:/(\d*))?)"};
  std::smatch part;
  if (!std::regex_match(uri, part, form)) {
    throw std::invalid_argument("'" + uri +
                                "' is not redis://[user:password@]host[:port][/database]");
  }
  RedisAddress address;
  address.user = part[1];
  address.password = part[2];
  address.host = part[3];
  if (part[4].length() > 0) address.port = std::stoi(part[4]);
  if (part[5].length() > 0) address.database = std::stoi(part[5]);
  return address;
}

RespClient::RespClient(const RedisAddress& address, std::chrono::milliseconds timeout)
    : socket_(connect_to(address.host, address.port, timeout)) {
  if (!address.password.empty()) {
    if (address.user.empty()) {
      expect_ok({"AUTH", address.password});
    } else {
      expect_ok({"AUTH", address.user, address.password});
    }
  }
  if (address.database != 0) expect_ok({"SELECT", std::to_string(address.database)});
}

void RespClient::set_timeout(std::chrono::milliseconds timeout) { limit_waiting(socket_, timeout); }

void RespClient::expect_ok(const std::vector<std::string>& words) {
  const RedisReply reply = command(words);
  if (reply.is_error()) throw std::runtime_error(words.front() + ": " + reply.string);
}

RedisReply RespClient::command(const std::vector<std::string>& words) {
  std::string text = "*" + std::to_string(words.size()) + "\r\n";
  for (const auto& word : words) {
    text += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  }
  std::size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t n = ::send(socket_.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw std::system_error(errno, std::generic_category(), "sending to Redis");
    sent += static_cast<std::size_t>(n);
  }
  return read();
}

RedisReply RespClient::read() {
  const std::string line = read_line();
  if (line.empty()) throw std::runtime_error("Redis sent an empty line");
  const std::string rest = line.substr(1);
  RedisReply reply;
  switch (line.front()) {
    case '+':
      reply.type = RedisReply::Type::status;
      reply.string = rest;
      return reply;
    case '-':
      reply.type = RedisReply::Type::error;
      reply.string = rest;
      return reply;
    case ':':
      reply.type = RedisReply::Type::integer;
      reply.integer = std::stoll(rest);
      return reply;
    case '$':
      if (rest == "-1") return reply;
      reply.type = RedisReply::Type::string;
      reply.string = read_bytes(std::stoul(rest));
      read_bytes(2);
      return reply;
    case '*': {
      if (rest == "-1") return reply;
      reply.type = RedisReply::Type::array;
      for (auto left = std::stoul(rest); left > 0; --left) reply.elements.push_back(read());
      return reply;
    }
    default:
      throw std::runtime_error("not the Redis protocol: " + line);
  }
}

void RespClient::fill() {
  char buffer[16384];
  ssize_t n = 0;
  do {
    n = ::recv(socket_.get(), buffer, sizeof buffer, 0);
  } while (n < 0 && errno == EINTR);
  if (n < 0) throw std::system_error(errno, std::generic_category(), "reading from Redis");
  if (n == 0) throw std::runtime_error("Redis closed the connection");
  unread_.append(buffer, static_cast<std::size_t>(n));
}

std::string RespClient::read_line() {
  std::size_t end = 0;
  while ((end = unread_.find("\r\n")) == std::string::npos) fill();
  std::string line = unread_.substr(0, end);
  unread_.erase(0, end + 2);
  return line;
}

std::string RespClient::read_bytes(std::size_t count) {
  while (unread_.size() < count) fill();
  std::string bytes = unread_.substr(0, count);
  unread_.erase(0, count);
  return bytes;
}

}  // namespace leasehold::harness
