#include "postgres/abandoned_backend.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string_view>
#include <utility>

namespace leasehold::inline v0::postgres {
namespace {

void set(int socket, int level, int option, int value) noexcept {
  ::setsockopt(socket, level, option, &value, sizeof value);
}

/// False if it is not a TCP socket.
bool tcp_info_of(int socket, tcp_info& info) noexcept {
  socklen_t size = sizeof info;
  return ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0;
}

}  // namespace

AbandonedBackend::AbandonedBackend(int socket) noexcept : socket_(socket) {
  tcp_info info{};
  if (tcp_info_of(socket_, info)) {
    // A host that has vanished does not count for much longer than 20 s, whatever the URI says.
    set(socket_, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(socket_, IPPROTO_TCP, TCP_KEEPIDLE, 5);
    set(socket_, IPPROTO_TCP, TCP_KEEPINTVL, 5);
    set(socket_, IPPROTO_TCP, TCP_KEEPCNT, 3);
    set(socket_, IPPROTO_TCP, TCP_USER_TIMEOUT, 20'000);
  } else {
    // A unix socket, which has no states. It tells whether what was sent has been read.
    constexpr std::string_view terminate("X\0\0\0\4", 5);
    ::send(socket_, terminate.data(), terminate.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  ::shutdown(socket_, SHUT_RDWR);
}

AbandonedBackend::~AbandonedBackend() {
  if (socket_ >= 0) ::close(socket_);
}

AbandonedBackend::AbandonedBackend(AbandonedBackend&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)) {}

AbandonedBackend& AbandonedBackend::operator=(AbandonedBackend&& other) noexcept {
  std::swap(socket_, other.socket_);
  return *this;
}

bool AbandonedBackend::is_done() const noexcept {
  int unread = 0;
  if (::ioctl(socket_, FIONREAD, &unread) == 0 && unread > 0) return true;
  tcp_info info{};
  if (tcp_info_of(socket_, info)) {
    // In these states we have ended the connection, and the other side has not. An answer that
    // comes now, to which nobody listens, resets it.
    return info.tcpi_state != TCP_FIN_WAIT1 && info.tcpi_state != TCP_FIN_WAIT2;
  }
  int not_read_there = 0;
  return ::ioctl(socket_, TIOCOUTQ, &not_read_there) != 0 || not_read_there == 0;
}

}  // namespace leasehold::inline v0::postgres
