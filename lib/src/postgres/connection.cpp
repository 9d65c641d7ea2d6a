#include "postgres/connection.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "leasehold/errors.hpp"
#include "postgres/postgres_errors.hpp"
#include "postgres/pqxx_bridge.hpp"
#include "tasks/task_store.hpp"

namespace leasehold::inline v0::postgres {
namespace {

/// The prepared statement is missing, exists already, or has another result type now.
bool is_about_preparing(std::string_view sqlstate) {
  return sqlstate == "26000" || sqlstate == "42P05" || sqlstate == "0A000";
}

}  // namespace

Connection::Connection(const PostgresUri& uri, std::size_t first_host)
    : where_(uri.display), host_(first_host) {
  try {
    auto made = open_connection(uri, host_);
    cancel_request_.emplace(made.get());
    connection_ = adopt(std::move(made));
    silence_ = std::make_unique<pqxx::quiet_errorhandler>(*connection_);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Unavailable(where_ + ": " + error.what());
  }
  socket_ = ::fcntl(connection_->sock(), F_DUPFD_CLOEXEC, 0);
  if (socket_ < 0) {
    throw Unavailable(where_ + ": cannot watch the connection (" +
                      std::generic_category().message(errno) + ")");
  }
}

Connection::~Connection() {
  if (receiver_) interrupt();  // so that UNLISTEN waits for no answer
  receiver_.reset();
  silence_.reset();
  connection_.reset();
  if (socket_ >= 0) ::close(socket_);
}

/// Whether the server has closed the connection while it was idle. Reading would not tell, because
/// its last message, which gives the reason, would be read first.
bool Connection::hung_up() const noexcept {
  pollfd line{socket_, POLLRDHUP, 0};
  return ::poll(&line, 1, 0) != 0;
}

void Connection::cancel() noexcept {
  cancelled_ = true;  // before the server can answer
  cancel_request_->send();
}

void Connection::settle(std::chrono::milliseconds longest) {
  if (!cancelled_ || broken_) return;
  if (cancel_request_->wait_until_done(longest)) {
    cancelled_ = false;
  } else {
    broken_ = true;
  }
}

void Connection::interrupt() noexcept {
  interrupted_ = true;
  ::shutdown(socket_, SHUT_RD);  // libpq takes it for the end of the connection
}

std::optional<AbandonedBackend> Connection::abandon() noexcept {
  // Open: the answer came at the last moment, and the backend ends when we close the connection.
  if (!interrupted_ || connection_->is_open()) return std::nullopt;
  return AbandonedBackend(std::exchange(socket_, -1));
}

/// Translates an error that came after something was sent.
void Connection::raise(const std::exception& error) {
  const std::string sqlstate = sqlstate_of(error);
  if (cancelled_ && sqlstate == sqlstate::cancelled) {
    throw Unavailable(where_ + ": not done within the time-out, and cancelled");
  }
  const bool lost = !connection_->is_open() || ends_the_connection(sqlstate);
  const bool read_only = sqlstate == sqlstate::read_only;
  broken_ = lost || read_only || sqlstate == "40003";
  // A server that ends one connection says why. Without a word, the host or the way to it is gone.
  const bool wordless = sqlstate.empty() && !connection_->is_open();
  siblings_suspect_ = read_only || wordless || sqlstate.starts_with("57P");
  raise_statement_failure(lost ? "" : sqlstate, error.what(), where_);
}

/// A cancellation also ends the wait for synchronous standbys. The server then reports success,
/// although a failover can still lose what was committed.
const pqxx::result& Connection::checked(const pqxx::result& reply) const {
  if (cancelled_) {
    throw Unconfirmed(where_ + ": executed, but no standby confirmed it within the time-out");
  }
  return reply;
}

pqxx::result Connection::run(const Statement& statement, const Params& params) {
  std::optional<pqxx::nontransaction> transaction;
  try {
    transaction.emplace(*connection_);  // sends nothing
  } catch (const std::exception&) {
    broken_ = true;
  }
  if (hung_up()) broken_ = true;
  if (!usable()) throw Dead{};
  if (keeps_plans_ && !statement.prepared_name.empty()) {
    try {
      if (!prepared_.contains(statement.prepared_name)) {
        connection_->prepare(statement.prepared_name, statement.text);
        prepared_.insert(statement.prepared_name);
      }
      return checked(execute_prepared(*transaction, statement.prepared_name, params));
    } catch (const OutcomeUnknown&) {
      throw;
    } catch (const std::exception& error) {
      // Nothing was executed. Either a pooler gave us another session than the one in which the
      // statement was prepared, or the tables have changed. From now on we do without.
      if (!is_about_preparing(sqlstate_of(error))) raise(error);
      keeps_plans_ = false;
    }
  }
  try {
    return checked(execute(*transaction, statement.text, params));
  } catch (const OutcomeUnknown&) {
    throw;
  } catch (const std::exception& error) {
    raise(error);
  }
}

void Connection::listen(const std::string& channel) {
  try {
    receiver_ = std::make_unique<Receiver>(*connection_, channel);  // sends LISTEN
  } catch (const std::exception& error) {
    raise(error);
  }
}

void Connection::unlisten() {
  receiver_.reset();  // sends UNLISTEN
  if (!usable()) throw Unavailable(where_ + ": the listening connection was lost");
}

std::vector<std::string> Connection::wait_for_notifications() {
  try {
    // LISTEN can bring notifications too.
    for (connection_->get_notifs(); receiver_->heard.empty(); connection_->get_notifs()) {
      if (!connection_->is_open()) throw pqxx::broken_connection();
      pollfd line{socket_, POLLIN | POLLRDHUP, 0};
      ::poll(&line, 1, -1);
    }
    return std::exchange(receiver_->heard, {});
  } catch (const std::exception& error) {
    broken_ = true;
    throw Unavailable(where_ + ": the listening connection was lost (" + error.what() + ")");
  }
}

void Connection::transaction(const std::function<void(pqxx::transaction_base&)>& work) {
  try {
    pqxx::work transaction(*connection_);
    work(transaction);
    transaction.commit();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    raise(error);
  }
}

}  // namespace leasehold::inline v0::postgres
