#include "free_port.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>

namespace leasehold::harness {
namespace {

constexpr int kFirst = 10'000;

// Ports from here on are what the kernel gives to outgoing connections.
int ephemeral_begin() {
  int begin = 32'768;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> begin;
  return std::max(begin, kFirst + 1'000);
}

// An abstract unix socket as a lock: it is visible to exactly the processes that share our ports
// (the network namespace), and the kernel removes it when we crash.
FileDescriptor reserve(int port) {
  FileDescriptor fd{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = "leasehold-test-port-" + std::to_string(port);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) return {};
  return fd;
}

bool can_be_bound(int port) {
  const FileDescriptor fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

}  // namespace

FreePort::FreePort() {
  std::random_device random;
  std::uniform_int_distribution<int> any_port{kFirst, ephemeral_begin() - 1};
  for (int attempt = 0; attempt < 1'000; ++attempt) {
    if (auto port = at(any_port(random))) {
      *this = std::move(*port);
      return;
    }
  }
  throw std::runtime_error("no free TCP port on 127.0.0.1");
}

FreePort::FreePort(int number, FileDescriptor reservation)
    : number_(number), reservation_(std::move(reservation)) {}

std::optional<FreePort> FreePort::at(int number) {
  if (number < kFirst || number >= ephemeral_begin()) return std::nullopt;
  FileDescriptor reservation = reserve(number);
  if (!reservation || !can_be_bound(number)) return std::nullopt;
  return FreePort{number, std::move(reservation)};
}

}  // namespace leasehold::harness
