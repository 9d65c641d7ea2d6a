#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "harness/file_descriptor.hpp"
#include "harness/free_port.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {

/// A bad network: a TCP proxy between a client and a server on this machine that delays, drops and
/// cuts when told to. It knows no protocol: a request is what the client has sent in one piece, a
/// reply is what the server sends next on that connection. Each method has taken effect when it
/// returns. Thread-safe.
class FaultProxy {
 public:
  /// What becomes of a connection on which something was swallowed: closed by a reset, or open and
  /// silent for ever.
  enum class Then { cut, hang };

  /// Starts forwarding to 127.0.0.1:target_port.
  explicit FaultProxy(int target_port);
  ~FaultProxy();
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;

  /// Where clients connect, on 127.0.0.1.
  int port() const { return port_.number(); }

  /// Bytes arrive this much later, in each direction; a round trip takes twice as long.
  void set_delay(std::chrono::milliseconds delay);
  /// Resets all connections. New ones are accepted.
  void cut();
  /// On: new connections are refused. Those that exist stay; see cut().
  void refuse(bool on);
  /// On: nothing passes. Connections are accepted and stay open, and what was sent meanwhile
  /// arrives when it is switched off, as after a broken cable: unless its sender has closed the
  /// connection by a reset, and so given up what was not delivered.
  void blackhole(bool on);
  /// New connections lead to this port, as after a failover. Those that exist stay; see cut().
  void retarget(int port);

  /// The next request reaches the server, its reply does not reach the client. `matching`: only
  /// a request that contains this text; others pass. Requests that are pipelined behind an
  /// unanswered one make "its reply" ambiguous: the first bytes from the server count.
  void swallow_next_reply(Then then, std::string matching = "");
  /// The next request does not reach the server.
  void swallow_next_request(Then then, std::string matching = "");
  /// Waits until what was last asked to be swallowed has been; false when it was not in time.
  [[nodiscard]] bool wait_swallowed(std::chrono::milliseconds timeout = std::chrono::seconds{10});

  /// Open now.
  std::size_t connections() const { return connections_; }
  /// Accepted since the start.
  std::size_t accepted() const { return accepted_; }
  /// In both directions, since the start.
  std::uint64_t bytes_forwarded() const { return bytes_forwarded_; }

 private:
  class Loop;

  void tell(std::function<void(Loop&)> order);
  void arm(std::function<void(Loop&)> order);
  void swallowed();

  FreePort port_;
  std::atomic<std::size_t> connections_{0};
  std::atomic<std::size_t> accepted_{0};
  std::atomic<std::uint64_t> bytes_forwarded_{0};

  std::mutex mutex_;
  std::condition_variable changed_;
  // guarded by mutex_
  std::vector<std::function<void(Loop&)>> orders_;
  std::uint64_t orders_given_ = 0;
  std::uint64_t orders_done_ = 0;
  bool swallowed_ = false;

  FileDescriptor wake_;
  std::jthread thread_;  // last: it uses everything above
};

}  // namespace leasehold::testing
