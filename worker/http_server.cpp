#include "http_server.hpp"

#include <httplib.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "metrics.hpp"
#include "status_page.hpp"

namespace leasehold::worker {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t number_of_threads = 4;
constexpr std::size_t most_waiting = 16;
constexpr std::size_t longest_body = 1024;  // nobody has to send us one

constexpr std::array paths{"/metrics", "/healthz", "/readyz", "/status"};

/// A fixed number of threads and a bounded line of connections: when that is full, nobody is
/// accepted until there is room, and further ones wait in the kernel's own bounded line.
class BoundedThreads final : public httplib::TaskQueue {
 public:
  BoundedThreads() {
    for (std::size_t i = 0; i < number_of_threads; ++i) threads_.emplace_back([this] { work(); });
  }

  void enqueue(std::function<void()> job) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return jobs_.size() < most_waiting; });
    jobs_.push_back(std::move(job));
    changed_.notify_all();
  }

  void shutdown() override {
    {
      const std::lock_guard guard(mutex_);
      shut_ = true;
    }
    changed_.notify_all();
    threads_.clear();  // joins
  }

 private:
  void work() {
    while (true) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return shut_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      const auto job = std::move(jobs_.front());
      jobs_.pop_front();
      changed_.notify_all();
      lock.unlock();
      job();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  // protected by mutex_
  std::deque<std::function<void()>> jobs_;
  bool shut_ = false;

  std::vector<std::jthread> threads_;  // last: they use everything above
};

bool is_known(const std::string& path) {
  return std::ranges::any_of(paths, [&](const char* known) { return path == known; });
}

/// Turns away what is not a GET or HEAD of a path that there is.
httplib::Server::HandlerResponse turn_away(const httplib::Request& request,
                                           httplib::Response& response) {
  using Answer = httplib::Server::HandlerResponse;
  if (!is_known(request.path)) {
    response.status = 404;
    response.set_content("there are /metrics, /healthz, /readyz and /status\n", "text/plain");
    return Answer::Handled;
  }
  if (request.method != "GET" && request.method != "HEAD") {
    response.status = 405;
    response.set_header("Allow", "GET, HEAD");
    response.set_content("allowed are GET and HEAD\n", "text/plain");
    return Answer::Handled;
  }
  return Answer::Unhandled;
}

}  // namespace

HttpServer::HttpServer(const Listen& where, const Board& board)
    : wanted_(where), server_(std::make_unique<httplib::Server>()) {
  server_->new_task_queue = [] { return new BoundedThreads; };  // the server deletes it
  // Only this: SO_REUSEPORT, the library's default, would let two daemons share a port unnoticed.
  server_->set_socket_options([](int socket) {
    const int on = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  });
  server_->set_read_timeout(2s);
  server_->set_write_timeout(5s);
  server_->set_keep_alive_timeout(1);    // also the time for a request to begin
  server_->set_keep_alive_max_count(1);  // an idle connection would occupy a thread
  server_->set_payload_max_length(longest_body);
  route(board);

  errno = 0;
  if (where.port == 0) {
    port_ = server_->bind_to_any_port(where.host);
  } else {
    port_ = server_->bind_to_port(where.host, where.port) ? where.port : -1;
  }
  if (port_ < 0) {
    const std::string reason =
        errno == 0 ? "is there such an address?" : std::generic_category().message(errno);
    throw std::runtime_error("can not listen on " + where.host + ":" + std::to_string(where.port) +
                             ": " + reason);
  }
  thread_ = std::jthread([this] {
    server_->listen_after_bind();
    finished_ = true;
  });
  // A stop before that would be forgotten.
  while (!server_->is_running() && !finished_) std::this_thread::sleep_for(1ms);
}

HttpServer::~HttpServer() { request_stop(); }

std::string HttpServer::address() const {
  const bool ipv6 = wanted_.host.find(':') != std::string::npos;
  return (ipv6 ? "[" + wanted_.host + "]" : wanted_.host) + ":" + std::to_string(port_);
}

void HttpServer::request_stop() { server_->stop(); }

void HttpServer::route(const Board& board) {
  server_->set_pre_routing_handler(turn_away);
  server_->Get("/metrics", [&board](const auto&, httplib::Response& response) {
    response.set_content(render_metrics(board), "text/plain; version=0.0.4; charset=utf-8");
  });
  server_->Get("/healthz", [](const auto&, httplib::Response& response) {
    response.set_content("alive\n", "text/plain");
  });
  server_->Get("/readyz", [&board](const auto&, httplib::Response& response) {
    const std::string complaints = render_not_ready(board);
    if (!complaints.empty()) response.status = 503;
    response.set_content(complaints.empty() ? "ready\n" : complaints, "text/plain; charset=utf-8");
  });
  server_->Get("/status", [&board](const auto&, httplib::Response& response) {
    response.set_content(render_status(board), "application/json");
  });
}

}  // namespace leasehold::worker
