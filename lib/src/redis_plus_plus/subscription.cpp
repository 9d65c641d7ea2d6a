#include "redis_plus_plus/subscription.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "support/backoff.hpp"
#include "support/start_thread.hpp"

namespace leasehold::inline v0::redis_plus_plus {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// The thread looks this often whether it has to stop.
constexpr milliseconds glance{200};

// After this long without a message the server is asked to subscribe us once more, which it
// answers. If it does not for as long again, the connection is given up.
constexpr milliseconds silence{1'000};

}  // namespace

Subscription::Subscription(Find find, std::string channel,
                           std::function<void(std::string_view)> on_message,
                           std::function<void()> on_subscribed)
    : find_(std::move(find)),
      channel_(std::move(channel)),
      on_message_(std::move(on_message)),
      on_subscribed_(std::move(on_subscribed)),
      thread_(start_thread("that listens to Redis",
                           [this](const std::stop_token& stop) { run(stop); })) {}

Subscription::~Subscription() {
  thread_.request_stop();
  thread_.join();
}

void Subscription::run(const std::stop_token& stop) {
  Backoff backoff{milliseconds{20}, milliseconds{500}};
  while (!stop.stop_requested()) {
    const auto began = steady_clock::now();
    try {
      if (const auto options = find_()) listen(stop, *options);
    } catch (const std::exception&) {
      // Callers of commands get the error; here it is enough to try again.
    }
    if (steady_clock::now() - began > silence) backoff.reset();
    ThreadLock lock(mutex_);
    pause_.wait_for(lock, stop, backoff.next(), [] { return false; });
  }
}

/// Returns when the server is silent or the thread has to stop; throws if the connection breaks.
void Subscription::listen(const std::stop_token& stop,
                          const sw::redis::ConnectionOptions& options) {
  auto own = options;
  own.socket_timeout = std::min(own.socket_timeout, glance);
  auto subscriber = sw::redis::Redis(own).subscriber();
  auto heard = steady_clock::now();
  bool subscribed = false;
  bool asked = true;
  subscriber.on_message([&](const std::string&, const std::string& text) { on_message_(text); });
  subscriber.on_meta([&](auto type, const auto&, long long) {
    const bool first = !std::exchange(subscribed, true);
    if (first && type == sw::redis::Subscriber::MsgType::SUBSCRIBE) on_subscribed_();
  });
  subscriber.subscribe(channel_);
  while (!stop.stop_requested()) {
    try {
      subscriber.consume();
      heard = steady_clock::now();
      asked = false;
    } catch (const sw::redis::TimeoutError&) {
      const auto quiet = steady_clock::now() - heard;
      if (asked && quiet > 2 * silence) return;
      if (!asked && quiet > silence) {
        subscriber.subscribe(channel_);
        asked = true;
      }
    }
  }
}

}  // namespace leasehold::inline v0::redis_plus_plus
