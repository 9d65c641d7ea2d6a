#include "postgres/connection_pool.hpp"

#include <algorithm>

#include "leasehold/errors.hpp"
#include "postgres/postgres_errors.hpp"

namespace leasehold::inline v0::postgres {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds first_reconnect_pause{50};
constexpr milliseconds longest_reconnect_pause{2'000};

// How long a statement that was cancelled may take to end. A user waits that much longer.
constexpr milliseconds shortest_grace{100};
constexpr milliseconds longest_grace{1'000};

// Before a connection on top of those that the pool may have, while so many backends do not answer.
constexpr milliseconds first_pause_on_top{1'000};
constexpr milliseconds longest_pause_on_top{60'000};

// How long a connection stays idle beside others.
constexpr milliseconds longest_surplus{2'000};

// How often a statement is run in all if it meets deadlocks or serialization failures.
constexpr int most_tries = 6;

}  // namespace

/// A connection that is taken for one statement, and watched until it is given back.
class ConnectionPool::Loan {
 public:
  Loan(ConnectionPool& pool, Clock::time_point deadline)
      : pool_(pool), connection_(pool.take(deadline)) {}
  ~Loan() { pool_.give_back(std::move(connection_)); }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

  Connection& operator*() const { return *connection_; }

 private:
  ConnectionPool& pool_;
  std::unique_ptr<Connection> connection_;
};

ConnectionPool::ConnectionPool(PostgresUri uri, PostgresOptions options)
    : uri_(std::move(uri)),
      options_(std::move(options)),
      grace_(std::clamp(options_.command_timeout / 2, shortest_grace, longest_grace)),
      pause_on_top_(first_pause_on_top, longest_pause_on_top),
      backoff_(first_reconnect_pause, longest_reconnect_pause),
      watchdog_([this](const std::stop_token& stop) { watch(stop); }) {
  // So that giving a connection back cannot fail.
  const ThreadLock lock(mutex_);
  idle_.reserve(options_.connections);
  busy_.reserve(options_.connections);
}

ConnectionPool::~ConnectionPool() = default;

pqxx::result ConnectionPool::run(const Statement& statement, const Params& params) {
  Backoff pause(milliseconds{5}, milliseconds{200});
  auto deadline = Clock::now() + options_.command_timeout;
  std::size_t dead = 0;
  for (int tries = 1;;) {
    try {
      const Loan loan(*this, deadline);
      return (*loan).run(statement, params);
    } catch (const Connection::Dead&) {
      // After a restart of the server all idle connections may be dead. Each says so before
      // anything is sent, and in the end a new one is made.
      if (++dead <= options_.connections) continue;
      throw Unavailable(uri_.display + ": the server closes every connection");
    } catch (const SqlRefused& refused) {
      // What was locked for so long probably still is.
      const bool may_help = refused.reason() == ServerRefused::Reason::conflict &&
                            refused.sqlstate() != sqlstate::lock_not_available &&
                            refused.sqlstate() != sqlstate::cancelled;
      if (!may_help || tries == most_tries) throw;
    }
    ++tries;
    retries_.fetch_add(1, std::memory_order_relaxed);
    std::this_thread::sleep_for(pause.next());
    deadline = Clock::now() + options_.command_timeout;
    dead = 0;
  }
}

std::unique_ptr<Connection> ConnectionPool::take(Clock::time_point deadline) {
  std::unique_ptr<Connection> connection;
  {
    ThreadLock lock(mutex_);
    if (!freed_.wait_until(lock, deadline, [this]() LEASEHOLD_REQUIRES(mutex_) {
          return taken_ + places_lost() < options_.connections;
        })) {
      throw Unavailable(uri_.display + ": not sent within the time-out, because all " +
                        std::to_string(options_.connections) + " connections are in use" +
                        (abandoned_.empty() ? "" : ", or their backends do not answer"));
    }
    ++taken_;
    if (!idle_.empty()) {
      connection = std::move(idle_.back().connection);
      idle_.pop_back();
    }
  }
  try {
    if (!connection) connection = connect();
  } catch (...) {
    const ThreadLock lock(mutex_);
    --taken_;
    freed_.notify_one();
    throw;
  }
  const ThreadLock lock(mutex_);
  // The statement's time begins now, after waiting and connecting.
  busy_.push_back({connection.get(), Clock::now() + options_.command_timeout});
  called_ = true;
  if (watchdog_sleeps_) wake_watchdog_.notify_one();
  return connection;
}

/// Abandoned backends count as connections, but one place can always be used.
std::size_t ConnectionPool::places_lost() const {
  return std::min(abandoned_.size(), options_.connections - 1);
}

void ConnectionPool::abandon(AbandonedBackend backend) noexcept {
  abandoned_.push_back(std::move(backend));  // connect() has reserved the room
  if (abandoned_.size() > options_.connections) next_on_top_ = Clock::now() + pause_on_top_.next();
}

void ConnectionPool::forget_those_done() noexcept {
  if (std::erase_if(abandoned_, [](const auto& backend) { return backend.is_done(); }) == 0) return;
  // There is room for another now. While too many are left, it does not shorten the pause after it.
  next_on_top_ = {};
  if (abandoned_.size() <= options_.connections) pause_on_top_.reset();
  freed_.notify_all();
}

void ConnectionPool::give_back(std::unique_ptr<Connection> connection) noexcept {
  Clock::duration patience{};
  {
    const ThreadLock lock(mutex_);
    const auto busy = std::find_if(busy_.begin(), busy_.end(), [&](const Busy& one) {
      return one.connection == connection.get();
    });
    // What is left of the grace: the caller has waited for the rest of it.
    if (busy->give_up) patience = std::max(*busy->give_up - Clock::now(), patience);
    busy_.erase(busy);
  }
  // From here on the watchdog does not cancel it any more.
  connection->settle(std::chrono::ceil<milliseconds>(patience));
  if (connection->siblings_suspect()) close_idle(connection->host());
  auto abandoned = connection->abandon();
  if (!connection->usable()) connection.reset();
  const ThreadLock lock(mutex_);
  --taken_;
  if (abandoned) abandon(*std::move(abandoned));
  if (watchdog_sleeps_ && !abandoned_.empty()) wake_watchdog_.notify_one();
  if (connection) idle_.push_back({std::move(connection), Clock::now()});
  freed_.notify_one();
}

/// Closes the idle connections to a host because one of them turned out to be of no use, so that
/// they are not tried one by one. New ones begin with the next host.
void ConnectionPool::close_idle(std::size_t host) noexcept {
  {
    const ThreadLock lock(mutex_);
    if (host_ == host) host_ = (host + 1) % uri_.hosts.size();
  }
  close_if([host](const Idle& idle) { return idle.connection->host() == host; });
}

void ConnectionPool::close_unused() noexcept {
  const auto now = Clock::now();
  close_if([&](const Idle&) LEASEHOLD_REQUIRES(mutex_) { return now >= first_close(); });
}

/// When the connection that was idle for longest is closed. Several are idle only if there was more
/// to do at once for a moment.
ConnectionPool::Clock::time_point ConnectionPool::first_close() const {
  const auto most =
      idle_.size() > 1 ? std::min(longest_surplus, options_.idle_timeout) : options_.idle_timeout;
  return idle_.front().since + most;
}

/// A connection counts as taken until it is closed, so that the server never sees more of them than
/// it may.
template <typename Condition>
void ConnectionPool::close_if(Condition&& condition) noexcept {
  for (;;) {
    std::unique_ptr<Connection> idle;
    {
      const ThreadLock lock(mutex_);
      const auto found = std::find_if(idle_.begin(), idle_.end(), condition);
      if (found == idle_.end()) return;
      idle = std::move(found->connection);
      idle_.erase(found);
      ++taken_;
    }
    idle.reset();  // outside the lock
    const ThreadLock lock(mutex_);
    --taken_;
    freed_.notify_one();
  }
}

void ConnectionPool::check_may_connect() const {
  const auto now = Clock::now();
  if (now < next_attempt_) {
    if (last_refusal_) throw ServerRefused(*last_refusal_, last_error_);
    throw Unavailable(last_error_);
  }
  if (abandoned_.size() > options_.connections && now < next_on_top_) {
    throw Unavailable(uri_.display + ": " + std::to_string(abandoned_.size()) +
                      " backends of this pool do not answer, and no other is tried for a while");
  }
}

std::unique_ptr<Connection> ConnectionPool::connect() {
  std::size_t first_host = 0;
  {
    const ThreadLock lock(mutex_);
    first_host = host_;
    forget_those_done();  // rather now than when the watchdog looks: a refusal would be wrong
    check_may_connect();
    // So that abandoning it, or one of the others, cannot fail.
    abandoned_.reserve(abandoned_.size() + options_.connections);
  }
  const auto failed = [this](const Error& error, std::optional<ServerRefused::Reason> refusal) {
    const ThreadLock lock(mutex_);
    last_error_ = error.what();
    last_refusal_ = refusal;
    next_attempt_ = Clock::now() + backoff_.next();
  };
  try {
    auto connection = std::make_unique<Connection>(uri_, first_host);
    const ThreadLock lock(mutex_);
    host_ = connection->host();
    backoff_.reset();
    next_attempt_ = {};
    return connection;
  } catch (const ServerRefused& error) {
    failed(error, error.reason());
    throw;
  } catch (const Unavailable& error) {
    failed(error, std::nullopt);
    throw;
  }
}

/// Ends statements that take too long, because libpq itself would wait forever. Looks about eight
/// times within a time-out while there are calls, and sleeps while there are none. Also closes
/// connections that are not needed any more, and those of abandoned backends that are done.
void ConnectionPool::watch(const std::stop_token& stop) {
  const auto tick = std::clamp(options_.command_timeout / 8, milliseconds{5}, milliseconds{250});
  while (!stop.stop_requested()) {
    {
      ThreadLock lock(mutex_);
      wait_for_work(lock, stop);
      if (has_work()) {
        called_ = false;
        wake_watchdog_.wait_for(lock, stop, tick, [] { return false; });
        enforce_deadlines(Clock::now());
        forget_those_done();
      }
    }
    close_unused();
  }
}

bool ConnectionPool::has_work() const { return called_ || !busy_.empty() || !abandoned_.empty(); }

/// Returns at once if there is a call or an abandoned backend, and otherwise with the next one or
/// when a connection has been idle for long enough.
void ConnectionPool::wait_for_work(ThreadLock& lock, const std::stop_token& stop) {
  const auto work = [this]() LEASEHOLD_REQUIRES(mutex_) { return has_work(); };
  watchdog_sleeps_ = true;
  if (idle_.empty()) {
    wake_watchdog_.wait(lock, stop, work);
  } else {
    wake_watchdog_.wait_until(lock, stop, first_close(), work);
  }
  watchdog_sleeps_ = false;
}

/// A statement is first cancelled, so that it does not go on for nobody. The connection is broken
/// only if the server does not answer that either. Its backend is then abandoned.
void ConnectionPool::enforce_deadlines(Clock::time_point now) {
  for (Busy& busy : busy_) {
    if (now < busy.deadline) continue;
    if (!busy.give_up) busy.give_up = now + grace_;
    if (now < *busy.give_up) {
      busy.connection->cancel();  // again each time: one that came between two statements is lost
    } else {
      busy.connection->interrupt();
    }
  }
}

}  // namespace leasehold::inline v0::postgres
