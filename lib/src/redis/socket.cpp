#include "redis/socket.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "support/start_thread.hpp"
#include "support/thread_safety.hpp"

namespace leasehold::inline v0::redis {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

std::runtime_error system_failure(int error) {
  return std::runtime_error(std::generic_category().message(error));
}

/// Waits until a connection that was begun is made. Throws if it failed or took too long.
void await_connected(int fd, Connector::Deadline deadline, const std::function<bool()>& give_up) {
  if (!await_event(fd, POLLOUT, deadline, give_up)) throw system_failure(ETIMEDOUT);
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) throw system_failure(error);
}

Connector::Address unix_address(const std::string& path) {
  sockaddr_un named{};
  named.sun_family = AF_UNIX;
  if (path.size() >= sizeof named.sun_path) throw system_failure(ENAMETOOLONG);
  std::copy(path.begin(), path.end(), named.sun_path);
  Connector::Address address{};
  address.size = sizeof named;
  std::memcpy(&address.bytes, &named, sizeof named);
  return address;
}

}  // namespace

bool await_event(int fd, short events, steady_clock::time_point deadline,
                 const std::function<bool()>& give_up) {
  constexpr milliseconds longest{100};
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    pollfd awaited{fd, events, 0};
    if (poll(&awaited, 1, static_cast<int>(std::clamp(left, milliseconds{0}, longest).count())) > 0)
      return true;
    if (left <= milliseconds{0} || give_up()) return false;
  }
}

Socket::~Socket() {
  if (open()) close(fd_);
}

Socket::Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

/// Shared with the thread that asks the resolver, which may outlive the connector.
struct Connector::Lookup {
  Lookup(std::string its_host, int its_port) : host(std::move(its_host)), port(its_port) {}
  const std::string host;
  const int port;
  ThreadMutex mutex;
  ThreadCondition changed;
  std::optional<Answer> answer LEASEHOLD_GUARDED_BY(mutex);
};

/// Whether an earlier lookup is of no use: it was for another name, or its answer came too late and
/// may be old by now.
bool Connector::is_outdated(Lookup& lookup, const RedisUri& server) {
  const ThreadLock lock(lookup.mutex);
  return lookup.answer.has_value() || lookup.host != server.host || lookup.port != server.port;
}

Connector::Answer Connector::look_up(const RedisUri& server, int flags) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = flags;
  addrinfo* list = nullptr;
  Answer answer;
  answer.error =
      getaddrinfo(server.host.c_str(), std::to_string(server.port).c_str(), &wanted, &list);
  if (answer.error != 0) return answer;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(list, freeaddrinfo);
  for (const addrinfo* each = list; each; each = each->ai_next) {
    Address address{};
    address.size = std::min<socklen_t>(each->ai_addrlen, sizeof address.bytes);
    std::memcpy(&address.bytes, each->ai_addr, address.size);
    answer.found.push_back(address);
  }
  return answer;
}

std::vector<Connector::Address> Connector::addresses(const RedisUri& server, Deadline deadline) {
  if (!server.socket.empty()) return {unix_address(server.socket)};
  if (lookup_ && is_outdated(*lookup_, server)) lookup_.reset();
  if (!lookup_) {
    Answer numeric = look_up(server, AI_NUMERICHOST);  // which asks nobody
    if (numeric.error == 0) return std::move(numeric.found);
    auto lookup = std::make_shared<Lookup>(server.host, server.port);
    start_thread<std::thread>("to look up the server's name", [lookup, server] {
      Answer answer = look_up(server, 0);
      const ThreadLock lock(lookup->mutex);
      lookup->answer = std::move(answer);
      lookup->changed.notify_all();
    }).detach();
    lookup_ = std::move(lookup);
  }
  const std::shared_ptr<Lookup> lookup = lookup_;
  ThreadLock lock(lookup->mutex);
  const auto is_done = [&]()
                           LEASEHOLD_REQUIRES(lookup->mutex) { return lookup->answer.has_value(); };
  if (!lookup->changed.wait_until(lock, deadline, is_done)) {
    throw std::runtime_error("its name was not resolved within the time-out");
  }
  lookup_.reset();
  if (lookup->answer->error != 0) throw std::runtime_error(gai_strerror(lookup->answer->error));
  return std::move(lookup->answer->found);
}

Socket Connector::connect_to(const Address& address, Deadline deadline,
                             const std::function<bool()>& give_up) {
  Socket made(socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made.open()) throw system_failure(errno);
  const auto* where = reinterpret_cast<const sockaddr*>(&address.bytes);
  if (::connect(made.fd(), where, address.size) != 0) {
    if (errno != EINPROGRESS) throw system_failure(errno);
    await_connected(made.fd(), deadline, give_up);
  }
  fcntl(made.fd(), F_SETFL, fcntl(made.fd(), F_GETFL) & ~O_NONBLOCK);
  const int on = 1;
  setsockopt(made.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return made;
}

Socket Connector::connect(const RedisUri& server, Deadline deadline,
                          const std::function<bool()>& give_up) {
  const auto candidates = addresses(server, deadline);
  std::string why = "its name has no address";
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    // Each gets its share of the time: behind the first one there may be a network that swallows
    // everything.
    const auto now = steady_clock::now();
    const auto share = (deadline - now) / static_cast<int>(candidates.size() - i);
    try {
      return connect_to(candidates[i], now + share, give_up);
    } catch (const std::runtime_error& error) {
      why = error.what();
    }
  }
  throw std::runtime_error(why);
}

}  // namespace leasehold::inline v0::redis
