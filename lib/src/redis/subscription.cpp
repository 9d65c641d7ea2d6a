#include "redis/subscription.hpp"

#include <poll.h>
#include <spdlog/logger.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "leasehold/errors.hpp"
#include "redis/redis_errors.hpp"
#include "support/backoff.hpp"
#include "support/log_event.hpp"
#include "support/start_thread.hpp"

namespace leasehold::inline v0::redis {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A server that is silent for this long gets a PING. If it does not answer for as long again, the
// connection is given up.
constexpr milliseconds silence{1'000};

}  // namespace

Subscription::Subscription(std::shared_ptr<Destination> destination, std::string channel,
                           std::function<void(std::string_view)> on_message,
                           std::function<void()> on_subscribed,
                           std::shared_ptr<spdlog::logger> logger)
    : channel_(std::move(channel)),
      on_message_(std::move(on_message)),
      on_subscribed_(std::move(on_subscribed)),
      logger_(std::move(logger)),
      where_(destination->uri().display()),
      destination_(std::move(destination)),
      connection_(destination_),
      wake_fd_(eventfd(0, EFD_CLOEXEC)) {
  if (wake_fd_ < 0) {
    throw Unavailable(where_ + ": cannot listen: " + std::generic_category().message(errno));
  }
  try {
    thread_ =
        start_thread("that listens to Redis", [this](const std::stop_token& stop) { run(stop); });
  } catch (...) {
    close(wake_fd_);
    throw;
  }
}

Subscription::~Subscription() {
  thread_.request_stop();
  eventfd_write(wake_fd_, 1);  // stays readable: every wait of the thread ends at once
  thread_.join();
  close(wake_fd_);
}

void Subscription::run(const std::stop_token& stop) {
  Backoff backoff{milliseconds{20}, milliseconds{500}};
  while (!stop.stop_requested()) {
    try {
      connection_.connect();
      // What is offered to us is published on the primary, which asks how many listen there.
      if (!connection_.to_replica()) {
        backoff.reset();
        listen(stop);
      }
    } catch (const Connection::Broken&) {
    } catch (const std::exception&) {
      // Callers of commands get the error; here it is enough to try again.
    }
    connection_.close();
    pollfd wake{wake_fd_, POLLIN, 0};
    poll(&wake, 1, static_cast<int>(backoff.next().count()));
  }
}

/// Returns when the connection breaks, the commands have moved, or the thread has to stop.
void Subscription::listen(const std::stop_token& stop) {
  std::string bytes;
  const std::array<std::string_view, 2> subscribe{"SUBSCRIBE", channel_};
  encode(subscribe, bytes);
  auto heard = steady_clock::now();
  if (connection_.send(bytes, heard + silence) != bytes.size()) return;
  bool asked = false;
  while (!stop.stop_requested() && connection_.moves() == destination_->moves()) {
    if (const auto reply = connection_.receive_or_wake(heard + silence, wake_fd_)) {
      handle(*reply);
      asked = false;
    } else if (asked) {
      return;
    } else if (!stop.stop_requested()) {
      constexpr std::string_view ping = "*1\r\n$4\r\nPING\r\n";
      if (connection_.send(ping, steady_clock::now() + silence) != ping.size()) return;
      asked = true;
    }
    heard = steady_clock::now();
  }
}

void Subscription::handle(const RedisReply& reply) {
  if (reply.type == RedisReply::Type::error && !std::exchange(warned_, true)) {
    // Without it locks still work, but slowly, and nobody would know why.
    log_warn(*logger_, "not subscribed, locks are handed over late",
             {{"channel", channel_}, {"error", explain(reply.text, where_).what()}});
  }
  if (reply.type != RedisReply::Type::array || reply.elements.empty()) return;
  const std::string& kind = reply.elements[0].text;
  if (kind == "subscribe") on_subscribed_();
  if (kind == "message" && reply.elements.size() == 3) on_message_(reply.elements[2].text);
}

}  // namespace leasehold::inline v0::redis
