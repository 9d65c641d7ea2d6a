#include "redis/sentinels.hpp"

#include <array>
#include <charconv>
#include <exception>
#include <utility>

#include "redis/connection.hpp"
#include "redis/destination.hpp"
#include "redis/redis_errors.hpp"
#include "support/backoff.hpp"
#include "support/start_thread.hpp"

namespace leasehold::inline v0::redis {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds round_time{500};

// A sentinel does nothing that takes long. One that does not answer within this time must not keep
// us from asking the others.
constexpr milliseconds patience{300};

std::optional<int> to_port(const std::string& text) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return port > 0 && port < 65'536 ? std::optional(port) : std::nullopt;
}

/// The value of a field in a reply that lists names and values in turn; 0 if it is missing.
unsigned long long number_in(const RedisReply& reply, std::string_view name) {
  for (std::size_t i = 0; i + 1 < reply.elements.size(); i += 2) {
    if (reply.elements[i].text != name) continue;
    const std::string& text = reply.elements[i + 1].text;
    unsigned long long value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  }
  return 0;
}

}  // namespace

/// One of them, with a connection that is kept. Not thread-safe.
class Sentinels::Sentinel {
 public:
  struct Answer {
    RedisUri::Address primary;
    unsigned long long epoch = 0;  // grows with each failover
  };

  Sentinel(const RedisUri& uri, std::shared_ptr<const TlsContext> tls, std::string service)
      : where_(uri.display()),
        service_(std::move(service)),
        connection_(std::make_shared<Destination>(uri, patience, std::move(tls))) {}

  /// What it knows. Throws Unavailable or ServerRefused.
  Answer ask() {
    try {
      connect();
      return read_answer();
    } catch (const Connection::Broken& broken) {
      connection_.close();
      throw Unavailable(where_ + ": " + broken.why);
    } catch (...) {
      connection_.close();  // a reply may be left unread
      throw;
    }
  }

 private:
  void connect() {
    if (connection_.open()) return;
    const auto now = steady_clock::now();
    if (now < next_attempt_) std::rethrow_exception(last_problem_);
    try {
      connection_.connect();
      backoff_.reset();
    } catch (const Error&) {
      last_problem_ = std::current_exception();
      next_attempt_ = steady_clock::now() + backoff_.next();
      throw;
    }
  }

  Answer read_answer() {
    const std::array<std::string_view, 3> address{"SENTINEL", "GET-MASTER-ADDR-BY-NAME", service_};
    const std::array<std::string_view, 3> details{"SENTINEL", "MASTER", service_};
    std::string bytes;
    encode(address, bytes);
    encode(details, bytes);
    const auto deadline = steady_clock::now() + patience;
    if (connection_.send(bytes, deadline) != bytes.size()) {
      throw Connection::Broken{"connection closed by the sentinel"};
    }
    RedisReply first = connection_.receive(deadline);
    const RedisReply master = connection_.receive(deadline);
    const RedisReply primary = checked(std::move(first), where_);
    const auto port =
        primary.elements.size() == 2 ? to_port(primary.elements[1].text) : std::nullopt;
    if (!port) {
      throw ServerRefused(ServerRefused::Reason::other,
                          where_ + ": this sentinel does not know a service \"" + service_ + "\"");
    }
    return {{primary.elements[0].text, *port}, number_in(master, "config-epoch")};
  }

  const std::string where_;
  const std::string service_;
  Connection connection_;
  Backoff backoff_{milliseconds{50}, milliseconds{1'000}};
  steady_clock::time_point next_attempt_{};
  std::exception_ptr last_problem_;
};

Sentinels::Sentinels(const RedisUri& uri, const std::shared_ptr<const TlsContext>& tls,
                     std::function<void()> on_change)
    : where_(uri.display()), on_change_(std::move(on_change)) {
  for (const auto& address : uri.seeds) {
    sentinels_.push_back(std::make_unique<Sentinel>(uri.sentinel_at(address), tls, uri.service));
  }
}

Sentinels::~Sentinels() {
  std::jthread thread;  // joined without the mutex, which it needs to come to its end
  const ThreadLock lock(mutex_);
  thread = std::move(thread_);
}

RedisUri::Address Sentinels::find_primary(Deadline deadline) {
  ThreadLock lock(mutex_);
  if (!thread_.joinable()) {
    thread_ =
        start_thread("that asks the sentinels", [this](const std::stop_token& stop) { run(stop); });
  }
  // What a round that runs already has found may be older than the reason to ask.
  const unsigned round = asked_ + (asking_ ? 2 : 1);
  wanted_ = std::max(wanted_, round);
  changed_.notify_all();
  const bool in_time = changed_.wait_until(
      lock, deadline, [&]() LEASEHOLD_REQUIRES(mutex_) { return asked_ >= round; });
  if (in_time && answered_) return *primary_;
  if (in_time && refused_) refused_->raise();
  throw Unavailable(where_ + ": no sentinel says where the primary is: " +
                    (in_time ? problem_ : "none has answered within the time-out"));
}

void Sentinels::run(const std::stop_token& stop) {
  ThreadLock lock(mutex_);
  while (!stop.stop_requested()) {
    changed_.wait_for(lock, stop, round_time,
                      [this]() LEASEHOLD_REQUIRES(mutex_) { return wanted_ > asked_; });
    if (stop.stop_requested()) return;
    asking_ = true;
    lock.unlock();
    ask_all(stop);
    lock.lock();
    asking_ = false;
    ++asked_;
    changed_.notify_all();
  }
}

void Sentinels::ask_all(const std::stop_token& stop) {
  std::optional<Sentinel::Answer> best;
  std::optional<Refusal> refused;
  std::string problem;
  std::size_t answers = 0;
  for (const auto& sentinel : sentinels_) {
    if (stop.stop_requested()) return;
    try {
      auto answer = sentinel->ask();
      ++answers;
      if (!best || answer.epoch > best->epoch) best = std::move(answer);
    } catch (const ServerRefused& error) {
      refused.emplace(error);
    } catch (const std::exception& error) {
      problem = error.what();
    }
  }
  if (best && best->epoch < epoch_ && answers <= sentinels_.size() / 2) {
    best.reset();  // a sentinel that is cut off, perhaps together with an old primary
    problem = "those that answer have an older configuration than others had";
  }
  if (best) epoch_ = best->epoch;
  bool is_another = false;
  {
    const ThreadLock lock(mutex_);
    answered_ = best.has_value();
    problem_ = std::move(problem);
    refused_ = std::move(refused);
    if (best) {
      is_another = primary_ && *primary_ != best->primary;
      primary_ = std::move(best->primary);
    }
  }
  if (is_another) on_change_();
}

}  // namespace leasehold::inline v0::redis
