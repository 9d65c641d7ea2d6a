#include "fault_proxy.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <list>
#include <optional>
#include <stop_token>
#include <system_error>
#include <utility>

#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

constexpr std::size_t kMostQueued = 8U << 20U;

[[noreturn]] void throw_errno(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

FileDescriptor tcp_socket() {
  FileDescriptor fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  if (!fd) throw_errno("socket");
  return fd;
}

void make_prompt_and_nonblocking(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

void close_by_reset(FileDescriptor& fd) {
  const linger at_once{1, 0};
  if (fd) ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  fd.reset();
}

// Whether the peer has closed it by a reset.
bool was_reset(const FileDescriptor& fd) {
  int error = 0;
  socklen_t size = sizeof error;
  return fd && ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error != 0;
}

struct Chunk {
  std::string bytes;
  steady_clock::time_point due;
};

// Bytes on their way in one direction.
struct Stream {
  std::deque<Chunk> queue;
  std::size_t queued = 0;
  bool ended = false;      // the source has sent its last byte
  bool passed_on = false;  // and the destination knows
};

enum class Side { client, server };

struct Connection {
  FileDescriptor client;
  FileDescriptor server;
  Stream to_server;
  Stream to_client;
  bool awaits_swallow = false;  // the request was passed on, its reply is to be dropped
  bool silent = false;
  bool finished = false;
};

struct Swallow {
  enum class What { request, reply };
  What what = What::request;
  FaultProxy::Then then = FaultProxy::Then::cut;
  std::string matching;
};

}  // namespace

// Everything the proxy's thread owns: nothing here needs a lock.
class FaultProxy::Loop {
 public:
  Loop(FaultProxy& proxy, int target_port, FileDescriptor listener)
      : proxy_(proxy), target_port_(target_port), listener_(std::move(listener)) {}

  static FileDescriptor listen_on(int port) {
    FileDescriptor fd = tcp_socket();
    const int on = 1;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const sockaddr_in address = loopback(port);
    if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(fd.get(), 511) != 0) {
      throw_errno("listening on port " + std::to_string(port));
    }
    ::fcntl(fd.get(), F_SETFL, O_NONBLOCK);
    return fd;
  }

  void set_delay(milliseconds delay) { delay_ = delay; }

  void cut() {
    accept_all();  // those in the backlog count as connected
    for (auto& connection : connections_) reset(connection);
    remove_finished();
  }

  void refuse(bool on) {
    if (on) {
      accept_all();
      listener_.reset();
    } else if (!listener_) {
      listener_ = listen_on(proxy_.port());
    }
  }

  void blackhole(bool on) {
    blackhole_ = on;
    if (on) return;
    for (auto& connection : connections_) {
      if (was_reset(connection.client) || was_reset(connection.server)) reset(connection);
    }
    remove_finished();
  }

  void retarget(int port) {
    accept_all();
    target_port_ = port;
  }

  void arm(Swallow swallow) {
    for (auto& connection : connections_) connection.awaits_swallow = false;
    swallow_ = std::move(swallow);
  }

  void run_once() {
    std::vector<pollfd> waited{{proxy_.wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const auto& connection : connections_) {
      waited.push_back({connection.client.get(), events(connection, Side::client), 0});
      waited.push_back({connection.server.get(), events(connection, Side::server), 0});
      // An error is reported even when nothing is asked for, and would be for ever.
      for (auto* entry : {&waited[waited.size() - 2], &waited.back()}) {
        if (entry->events == 0) entry->fd = -1;
      }
    }
    const auto timeout = until_next_due();
    const timespec limit{timeout.count() / 1'000'000'000, timeout.count() % 1'000'000'000};
    ::ppoll(waited.data(), waited.size(), timeout.count() < 0 ? nullptr : &limit, nullptr);

    if (waited[0].revents != 0) take_orders();
    std::size_t index = 2;
    for (auto& connection : connections_) {
      if (index >= waited.size()) break;  // accepted by an order just now
      const bool client_ready = waited[index++].revents != 0;
      const bool server_ready = waited[index++].revents != 0;
      if (client_ready && may_read(connection, Side::client)) receive(connection, Side::client);
      if (server_ready && may_read(connection, Side::server)) receive(connection, Side::server);
      forward(connection);
    }
    if (listener_ && waited[1].revents != 0) accept_all();
    remove_finished();
  }

 private:
  bool stands_still(const Connection& c) const { return blackhole_ || c.silent || c.finished; }

  bool may_read(const Connection& c, Side from) const {
    const Stream& stream = from == Side::client ? c.to_server : c.to_client;
    return !stands_still(c) && !stream.ended && stream.queued < kMostQueued;
  }

  short events(const Connection& c, Side side) const {
    if (stands_still(c)) return 0;
    int wanted = may_read(c, side) ? POLLIN : 0;
    const Stream& outgoing = side == Side::client ? c.to_client : c.to_server;
    if (!outgoing.queue.empty() && outgoing.queue.front().due <= steady_clock::now()) {
      wanted |= POLLOUT;
    }
    return static_cast<short>(wanted);
  }

  // Negative: nothing is due.
  nanoseconds until_next_due() const {
    std::optional<steady_clock::time_point> next;
    for (const auto& c : connections_) {
      if (stands_still(c)) continue;
      for (const Stream* stream : {&c.to_server, &c.to_client}) {
        if (stream->queue.empty()) continue;
        const auto due = stream->queue.front().due;
        // What is due already waits for room at its destination, which poll() reports.
        if (due > steady_clock::now()) next = std::min(next.value_or(due), due);
      }
    }
    if (!next) return nanoseconds{-1};
    return std::max(nanoseconds{0}, nanoseconds{*next - steady_clock::now()});
  }

  void take_orders() {
    std::uint64_t ignored = 0;
    [[maybe_unused]] const auto n = ::read(proxy_.wake_.get(), &ignored, sizeof ignored);
    std::unique_lock hold{proxy_.mutex_};
    auto orders = std::exchange(proxy_.orders_, {});
    hold.unlock();
    for (auto& order : orders) order(*this);
    hold.lock();
    proxy_.orders_done_ += orders.size();
    proxy_.changed_.notify_all();
  }

  void accept_all() {
    while (listener_) {
      FileDescriptor client{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)};
      if (!client) return;
      ++proxy_.accepted_;
      // Blocking, which on this machine means at once, whether somebody accepts or not.
      FileDescriptor server = tcp_socket();
      const sockaddr_in address = loopback(target_port_);
      if (::connect(server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) !=
          0) {
        close_by_reset(client);
        continue;
      }
      make_prompt_and_nonblocking(client.get());
      make_prompt_and_nonblocking(server.get());
      Connection connection;
      connection.client = std::move(client);
      connection.server = std::move(server);
      connections_.push_back(std::move(connection));
      ++proxy_.connections_;
    }
  }

  void receive(Connection& c, Side from) {
    char buffer[65536];
    const FileDescriptor& source = from == Side::client ? c.client : c.server;
    const ssize_t n = ::recv(source.get(), buffer, sizeof buffer, 0);
    if (n < 0) {
      if (errno != EAGAIN && errno != EINTR) reset(c);
      return;
    }
    Stream& stream = from == Side::client ? c.to_server : c.to_client;
    if (n == 0) {
      stream.ended = true;
      return;
    }
    std::string bytes{buffer, static_cast<std::size_t>(n)};
    if (from == Side::client ? swallows_request(c, bytes) : swallows_reply(c)) return;
    stream.queued += bytes.size();
    stream.queue.push_back({std::move(bytes), steady_clock::now() + delay_});
  }

  bool swallows_request(Connection& c, const std::string& bytes) {
    if (!swallow_ || bytes.find(swallow_->matching) == std::string::npos) return false;
    const Swallow swallow = *std::exchange(swallow_, std::nullopt);
    if (swallow.what == Swallow::What::reply) {
      c.awaits_swallow = true;
      then_ = swallow.then;
      return false;
    }
    end_after_swallow(c, swallow.then);
    return true;
  }

  bool swallows_reply(Connection& c) {
    if (!std::exchange(c.awaits_swallow, false)) return false;
    end_after_swallow(c, then_);
    return true;
  }

  void end_after_swallow(Connection& c, Then then) {
    if (then == Then::cut) {
      reset(c);
    } else {
      c.silent = true;
    }
    proxy_.swallowed();
  }

  void forward(Connection& c) {
    if (stands_still(c)) return;
    if (!forward(c.to_server, c.server) || !forward(c.to_client, c.client)) reset(c);
    if (c.to_server.passed_on && c.to_client.passed_on) c.finished = true;
  }

  // False when the destination is gone.
  bool forward(Stream& stream, const FileDescriptor& destination) {
    while (!stream.queue.empty() && stream.queue.front().due <= steady_clock::now()) {
      std::string& bytes = stream.queue.front().bytes;
      const ssize_t n = ::send(destination.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n < 0) return errno == EAGAIN || errno == EINTR;
      const auto sent = static_cast<std::size_t>(n);
      proxy_.bytes_forwarded_ += sent;
      stream.queued -= sent;
      if (sent < bytes.size()) {
        bytes.erase(0, sent);
        return true;
      }
      stream.queue.pop_front();
    }
    if (stream.ended && stream.queue.empty() && !std::exchange(stream.passed_on, true)) {
      ::shutdown(destination.get(), SHUT_WR);
    }
    return true;
  }

  static void reset(Connection& c) {
    close_by_reset(c.client);
    close_by_reset(c.server);
    c.finished = true;
  }

  void remove_finished() {
    const auto removed = std::erase_if(connections_, [](const auto& c) { return c.finished; });
    proxy_.connections_ -= removed;
  }

  FaultProxy& proxy_;
  int target_port_;
  FileDescriptor listener_;
  std::list<Connection> connections_;
  milliseconds delay_{0};
  bool blackhole_ = false;
  std::optional<Swallow> swallow_;
  Then then_ = Then::cut;  // of the connection that awaits its swallow
};

FaultProxy::FaultProxy(int target_port) : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  FileDescriptor listener = Loop::listen_on(port());
  thread_ = std::jthread(
      [this, target_port, listener = std::move(listener)](const std::stop_token& stop) mutable {
        Loop loop{*this, target_port, std::move(listener)};
        while (!stop.stop_requested()) loop.run_once();
      });
}

FaultProxy::~FaultProxy() {
  thread_.request_stop();
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto n = ::write(wake_.get(), &one, sizeof one);
}

void FaultProxy::tell(std::function<void(Loop&)> order) {
  std::unique_lock hold{mutex_};
  orders_.push_back(std::move(order));
  const std::uint64_t mine = ++orders_given_;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto n = ::write(wake_.get(), &one, sizeof one);
  changed_.wait(hold, [&] { return orders_done_ >= mine; });
}

void FaultProxy::set_delay(milliseconds delay) {
  tell([delay](Loop& loop) { loop.set_delay(delay); });
}

void FaultProxy::cut() {
  tell([](Loop& loop) { loop.cut(); });
}

void FaultProxy::refuse(bool on) {
  tell([on](Loop& loop) { loop.refuse(on); });
}

void FaultProxy::blackhole(bool on) {
  tell([on](Loop& loop) { loop.blackhole(on); });
}

void FaultProxy::retarget(int port) {
  tell([port](Loop& loop) { loop.retarget(port); });
}

void FaultProxy::swallow_next_reply(Then then, std::string matching) {
  arm([then, matching = std::move(matching)](Loop& loop) {
    loop.arm({Swallow::What::reply, then, matching});
  });
}

void FaultProxy::swallow_next_request(Then then, std::string matching) {
  arm([then, matching = std::move(matching)](Loop& loop) {
    loop.arm({Swallow::What::request, then, matching});
  });
}

void FaultProxy::arm(std::function<void(Loop&)> order) {
  tell([this, order = std::move(order)](Loop& loop) {
    {
      const std::scoped_lock hold{mutex_};
      swallowed_ = false;
    }
    order(loop);
  });
}

void FaultProxy::swallowed() {
  const std::scoped_lock hold{mutex_};
  swallowed_ = true;
  changed_.notify_all();
}

bool FaultProxy::wait_swallowed(milliseconds timeout) {
  std::unique_lock hold{mutex_};
  return changed_.wait_for(hold, timeout, [this] { return swallowed_; });
}

}  // namespace leasehold::testing
