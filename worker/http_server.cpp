#include "http_server.hpp"

#include <httplib.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <deque>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include "metrics.hpp"
#include "status_page.hpp"
#include "support/log_event.hpp"
#include "support/thread_safety.hpp"

namespace leasehold::worker {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t number_of_threads = 4;
constexpr std::size_t most_waiting = 16;
constexpr std::size_t longest_body = 1024;  // no request needs one

constexpr std::array paths{"/metrics", "/healthz", "/readyz", "/status"};

/// A fixed number of threads and a limited number of waiting connections. Beyond that none is
/// accepted until there is room; further ones wait in the kernel's own queue, which is limited too.
class BoundedThreads final : public httplib::TaskQueue {
 public:
  BoundedThreads() {
    for (std::size_t i = 0; i < number_of_threads; ++i) threads_.emplace_back([this] { work(); });
  }

  void enqueue(std::function<void()> job) override {
    ThreadLock lock(mutex_);
    changed_.wait(lock,
                  [this]() LEASEHOLD_REQUIRES(mutex_) { return jobs_.size() < most_waiting; });
    jobs_.push_back(std::move(job));
    changed_.notify_all();
  }

  void shutdown() override {
    {
      const ThreadLock guard(mutex_);
      shut_ = true;
    }
    changed_.notify_all();
    threads_.clear();  // joins
  }

 private:
  void work() {
    while (true) {
      ThreadLock lock(mutex_);
      changed_.wait(lock, [this]() LEASEHOLD_REQUIRES(mutex_) { return shut_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      const auto job = std::move(jobs_.front());
      jobs_.pop_front();
      changed_.notify_all();
      lock.unlock();
      job();
    }
  }

  ThreadMutex mutex_;
  ThreadCondition changed_;
  std::deque<std::function<void()>> jobs_ LEASEHOLD_GUARDED_BY(mutex_);
  bool shut_ LEASEHOLD_GUARDED_BY(mutex_) = false;

  std::vector<std::jthread> threads_;  // last: they use everything above
};

bool is_known(const std::string& path) {
  return std::ranges::any_of(paths, [&](const char* known) { return path == known; });
}

/// When the request that this thread answers had been read. Not set if it was none.
thread_local std::optional<std::chrono::steady_clock::time_point> request_began;

/// The path without the query, which nobody here reads: it may contain anything.
void log_request(spdlog::logger& log, const httplib::Request& request,
                 const httplib::Response& response) {
  const auto now = std::chrono::steady_clock::now();
  const auto took = now - std::exchange(request_began, std::nullopt).value_or(now);
  log_debug(log, "http request",
            {{"method", request.method},
             {"path", request.path},
             {"status", response.status},
             {"took_us", std::chrono::duration_cast<std::chrono::microseconds>(took).count()}});
}

/// Answers requests that are not a GET or HEAD of a known path.
httplib::Server::HandlerResponse turn_away(const httplib::Request& request,
                                           httplib::Response& response) {
  request_began = std::chrono::steady_clock::now();
  using Answer = httplib::Server::HandlerResponse;
  if (!is_known(request.path)) {
    response.status = 404;
    response.set_content("the path must be /metrics, /healthz, /readyz or /status\n", "text/plain");
    return Answer::Handled;
  }
  if (request.method != "GET" && request.method != "HEAD") {
    response.status = 405;
    response.set_header("Allow", "GET, HEAD");
    response.set_content("the method must be GET or HEAD\n", "text/plain");
    return Answer::Handled;
  }
  return Answer::Unhandled;
}

}  // namespace

HttpServer::HttpServer(const common::Listen& where, const DaemonStatus& status,
                       std::shared_ptr<spdlog::logger> log)
    : wanted_(where), log_(std::move(log)), server_(std::make_unique<httplib::Server>()) {
  server_->new_task_queue = [] { return new BoundedThreads; };  // the server deletes it
  // Not SO_REUSEPORT, the library's default: it would let two daemons share a port unnoticed.
  server_->set_socket_options([](int socket) {
    const int on = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  });
  server_->set_read_timeout(2s);
  server_->set_write_timeout(5s);
  server_->set_keep_alive_timeout(1);    // also how long a request may take to begin
  server_->set_keep_alive_max_count(1);  // an idle connection would keep a thread busy
  server_->set_payload_max_length(longest_body);
  route(status);
  bind();
  thread_ = std::jthread([this] {
    server_->listen_after_bind();
    finished_ = true;
  });
  // A stop before that would have no effect.
  while (!server_->is_running() && !finished_) std::this_thread::sleep_for(1ms);
}

HttpServer::~HttpServer() { request_stop(); }

void HttpServer::bind() {
  errno = 0;
  if (wanted_.port == 0) {
    port_ = server_->bind_to_any_port(wanted_.host);
  } else {
    port_ = server_->bind_to_port(wanted_.host, wanted_.port) ? wanted_.port : -1;
  }
  if (port_ < 0) {
    const std::string reason =
        errno == 0 ? "no such address" : std::generic_category().message(errno);
    throw std::runtime_error("cannot listen on " + wanted_.host + ":" +
                             std::to_string(wanted_.port) + ": " + reason);
  }
}

std::string HttpServer::address() const {
  const bool ipv6 = wanted_.host.find(':') != std::string::npos;
  return (ipv6 ? "[" + wanted_.host + "]" : wanted_.host) + ":" + std::to_string(port_);
}

void HttpServer::request_stop() { server_->stop(); }

void HttpServer::route(const DaemonStatus& status) {
  server_->set_pre_routing_handler(turn_away);
  server_->set_logger([this](const httplib::Request& request, const httplib::Response& response) {
    log_request(*log_, request, response);
  });
  server_->Get("/metrics", [&status](const auto&, httplib::Response& response) {
    response.set_content(render_metrics(status), "text/plain; version=0.0.4; charset=utf-8");
  });
  server_->Get("/healthz", [](const auto&, httplib::Response& response) {
    response.set_content("alive\n", "text/plain");
  });
  server_->Get("/readyz", [&status](const auto&, httplib::Response& response) {
    const std::string complaints = render_not_ready(status);
    if (!complaints.empty()) response.status = 503;
    response.set_content(complaints.empty() ? "ready\n" : complaints, "text/plain; charset=utf-8");
  });
  server_->Get("/status", [&status](const auto&, httplib::Response& response) {
    response.set_content(render_status(status), "application/json");
  });
}

}  // namespace leasehold::worker
