#include "postgres/open_connection.hpp"

#include <libpq-fe.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <optional>
#include <vector>

#include "leasehold/errors.hpp"
#include "postgres/postgres_errors.hpp"

namespace leasehold::inline v0::postgres {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// The addresses of a host. PQconnectPoll() has no time-out and stays with an address that does not
/// answer, so each of them is an attempt of its own. Empty if libpq has to find out itself.
std::vector<std::string> addresses_of(const PostgresUri::Host& host) {
  std::vector<std::string> found;
  if (host.name.empty()) return found;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* all = nullptr;
  if (::getaddrinfo(host.name.c_str(), nullptr, &hints, &all) != 0) return found;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(all, ::freeaddrinfo);
  for (const addrinfo* one = all; one != nullptr; one = one->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (::getnameinfo(one->ai_addr, one->ai_addrlen, text.data(), text.size(), nullptr, 0,
                      NI_NUMERICHOST) == 0) {
      found.emplace_back(text.data());
    }
  }
  return found;
}

bool is_on(const PGconn* connection, const char* parameter) {
  const char* value = PQparameterStatus(connection, parameter);
  return value != nullptr && std::string_view(value) == "on";
}

/// Says why libpq could not connect, by codes and states: messages are in anybody's language.
ConnectFailure failure_of(const PGconn* connection) {
  const std::string_view message = PQerrorMessage(connection);
  return {
      .sqlstate = std::string(sqlstate_in(message)),
      .message = std::string(message),
      .needs_password = PQconnectionNeedsPassword(connection) != 0,
      // The server was asked for the primary, and has told us before it was found wanting.
      .read_only =
          is_on(connection, "in_hot_standby") || is_on(connection, "default_transaction_read_only"),
  };
}

/// Waits until libpq can go on. False if the time is over.
bool wait_for(PGconn* connection, PostgresPollingStatusType wanted, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd line{PQsocket(connection), short(wanted == PGRES_POLLING_READING ? POLLIN : POLLOUT), 0};
    if (::poll(&line, 1, int(std::min<std::int64_t>(left, 60'000))) > 0) return true;
  }
}

LibpqConnection attempt(const std::string& conninfo, milliseconds connect_timeout) {
  const auto deadline = Clock::now() + connect_timeout;
  LibpqConnection connection(PQconnectStart(conninfo.c_str()));
  if (!connection) throw std::bad_alloc();
  PGconn* const raw = connection.get();
  // libpq has no function that returns the SQLSTATE of a failed attempt. Verbose messages have it.
  PQsetErrorVerbosity(raw, PQERRORS_VERBOSE);
  PQsetNoticeProcessor(
      raw, [](void*, const char*) {}, nullptr);  // a library does not print
  if (PQstatus(raw) == CONNECTION_BAD) raise_connect_failure(failure_of(raw));
  for (auto state = PGRES_POLLING_WRITING; state != PGRES_POLLING_OK; state = PQconnectPoll(raw)) {
    if (state == PGRES_POLLING_FAILED) raise_connect_failure(failure_of(raw));
    if (!wait_for(raw, state, deadline)) {
      throw Unavailable(std::string("no connection to ") + PQhost(raw) + ", port " + PQport(raw) +
                        ", within " + std::to_string(connect_timeout.count()) + " ms");
    }
  }
  PQsetErrorVerbosity(raw, PQERRORS_DEFAULT);
  return connection;
}

/// All failures as one. Hosts that may come back count more than those that refuse.
class Failures {
 public:
  void add(const Error& error) {
    if (!words_.empty()) words_ += "; ";
    words_ += error.what();
    const auto* refused = dynamic_cast<const ServerRefused*>(&error);
    if (refused == nullptr) {
      unavailable_ = true;
    } else if (!reason_ || refused->transient()) {
      reason_ = refused->reason();
    }
  }

  [[noreturn]] void raise(const std::string& where) const {
    if (unavailable_ || !reason_) throw Unavailable(where + ": " + words_);
    throw ServerRefused(*reason_, where + ": " + words_);
  }

 private:
  std::string words_;
  bool unavailable_ = false;
  std::optional<ServerRefused::Reason> reason_;
};

}  // namespace

void CloseConnection::operator()(pg_conn* connection) const noexcept { PQfinish(connection); }

LibpqConnection open_connection(const PostgresUri& uri, std::size_t& host) {
  Failures failures;
  const auto count = uri.hosts.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t number = (host + i) % count;
    const PostgresUri::Host& candidate = uri.hosts[number];
    std::vector<std::string> attempts;
    for (const auto& address : addresses_of(candidate)) {
      attempts.push_back(candidate.conninfo + " hostaddr='" + address + "'");
    }
    if (attempts.empty()) attempts.push_back(candidate.conninfo);
    for (const auto& conninfo : attempts) {
      try {
        auto connection = attempt(conninfo, uri.connect_timeout);
        host = number;
        return connection;
      } catch (const ServerRefused& error) {
        failures.add(error);
        break;  // its other addresses would say the same
      } catch (const Error& error) {
        failures.add(error);
      }
    }
  }
  failures.raise(uri.display);
}

std::string_view sqlstate_in(std::string_view verbose_message) {
  const auto is_code_character = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z');
  };
  constexpr std::size_t length = 5;
  constexpr std::string_view before = ":  ";
  for (auto at = verbose_message.find(before); at != std::string_view::npos;
       at = verbose_message.find(before, at + 1)) {
    const auto rest = verbose_message.substr(at + before.size());
    const auto code = rest.substr(0, length);
    if (code.size() == length && rest.substr(length).starts_with(": ") &&
        std::all_of(code.begin(), code.end(), is_code_character)) {
      return code;
    }
  }
  return {};
}

}  // namespace leasehold::inline v0::postgres
