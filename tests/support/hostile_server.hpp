#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

namespace leasehold::testing {

/// A server on a Unix socket that does not listen to what it is asked: whoever connects is sent the
/// bytes of the moment. Serves one connection at a time.
class HostileServer {
 public:
  /// What a Redis answers to a new connection of ours without a password.
  static constexpr const char* good_greeting =
      "+OK\r\n*2\r\n$10\r\n1700000000\r\n$6\r\n123456\r\n*1\r\n$6\r\nmaster\r\n"
      "*2\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n";

  HostileServer() {
    std::string folder =
        (std::filesystem::temp_directory_path() / "leasehold-hostile-XXXXXX").string();
    if (!mkdtemp(folder.data())) std::abort();
    path_ = folder + "/redis";
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof address.sun_path - 1);
    listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        listen(listener_, 16) != 0) {
      std::abort();
    }
    thread_ = std::thread([this] { serve(); });
  }

  HostileServer(const HostileServer&) = delete;
  HostileServer& operator=(const HostileServer&) = delete;

  ~HostileServer() {
    shutdown(listener_, SHUT_RDWR);  // ends accept()
    thread_.join();
    close(listener_);
    std::filesystem::remove_all(std::filesystem::path(path_).parent_path());
  }

  /// `credentials` end with @.
  std::string uri(const std::string& credentials = {}) const {
    return "redis+unix://" + credentials + path_;
  }

  /// Sends these bytes to those who connect from now on. Then come either the end of the stream, or
  /// the second bytes again and again until the client hangs up, but not for more than 20 s.
  void say(std::string once, std::string again_and_again = {}) {
    const std::lock_guard guard(mutex_);
    once_ = std::move(once);
    again_ = std::move(again_and_again);
    clients_left_ = 0;
  }

  /// Waits until a client has hung up since say().
  void wait_until_client_left() {
    std::unique_lock guard(mutex_);
    changed_.wait(guard, [this] { return clients_left_ > 0; });
  }

 private:
  /// libFuzzer has a timer, whose signal may come to this thread.
  template <class Call>
  static ssize_t retried(Call&& call) {
    for (;;) {
      const ssize_t result = call();
      if (result >= 0 || errno != EINTR) return result;
    }
  }

  void serve() {
    for (;;) {
      const auto client = static_cast<int>(
          retried([&] { return accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC); }));
      if (client < 0) return;
      serve(client);
      close(client);
      const std::lock_guard guard(mutex_);
      ++clients_left_;
      changed_.notify_all();
    }
  }

  void serve(int client) {
    std::string once;
    std::string again;
    {
      const std::lock_guard guard(mutex_);
      once = once_;
      again = again_;
    }
    bool listens = send_all(client, once);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds{20};
    while (listens && !again.empty() && std::chrono::steady_clock::now() < end) {
      listens = send_all(client, again);
    }
    shutdown(client, SHUT_WR);
    std::array<char, 4096> ignored;
    while (retried([&] { return recv(client, ignored.data(), ignored.size(), 0); }) > 0) continue;
  }

  static bool send_all(int client, const std::string& bytes) {
    std::size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t now =
          retried([&] { return send(client, &bytes[sent], bytes.size() - sent, MSG_NOSIGNAL); });
      if (now <= 0) return false;
      sent += static_cast<std::size_t>(now);
    }
    return true;
  }

  std::string path_;
  int listener_ = -1;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string once_;
  std::string again_;
  int clients_left_ = 0;
  std::thread thread_;
};

}  // namespace leasehold::testing
