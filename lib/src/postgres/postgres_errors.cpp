#include "postgres/postgres_errors.hpp"

#include <algorithm>
#include <array>

namespace leasehold::inline v0::postgres {
namespace {

using Reason = ServerRefused::Reason;

struct Explanation {
  std::string_view code;  ///< a SQLSTATE or the beginning of one
  Reason reason;
  std::string_view advice;
};

constexpr std::array explanations{
    Explanation{"40", Reason::conflict,
                "conflicts with other transactions, also when it was repeated"},
    Explanation{"55P03", Reason::conflict, "could not lock the row or table within lock_timeout"},
    // The only rows that a check of ours can refuse are completed tasks, while the partition of
    // their day is added.
    Explanation{"23514", Reason::conflict, "the partitions are changing"},
    Explanation{"25006", Reason::read_only,
                "this server is read-only: point the URI at the primary"},
    Explanation{"42P01", Reason::no_schema, "the tables do not exist: run migrate"},
    Explanation{"42883", Reason::no_schema, "the functions do not exist: run migrate"},
    Explanation{"42703", Reason::no_schema, "the tables are too old: run migrate"},
    Explanation{"3F000", Reason::no_schema, "the schema does not exist: run migrate"},
    Explanation{"42501", Reason::permission, "the user lacks a right"},
    Explanation{"28", Reason::authentication, "wrong user or password in the URI"},
    Explanation{"57014", Reason::conflict,
                "cancelled, or it took longer than the server's statement_timeout"},
    Explanation{"53100", Reason::cannot_save, "the server's disk is full"},
    Explanation{"58030", Reason::cannot_save, "the server cannot read or write its disk"},
    Explanation{"53200", Reason::out_of_memory, "the server is out of memory"},
};

/// One line, without the newline that libpq puts at the end.
std::string tidy(std::string_view message) {
  std::string text(message);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// Without the line that says where in the server's sources a verbose message comes from.
std::string without_location(std::string_view message) {
  message = message.substr(0, message.find_last_not_of(" \n") + 1);
  const auto line = message.rfind('\n');
  const auto number = message.find_last_not_of("0123456789") + 1;
  if (line != std::string_view::npos && number < message.size() &&
      message.substr(0, number).ends_with(".c:")) {
    message = message.substr(0, line);
  }
  return tidy(message);
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

SqlRefused explain(std::string_view sqlstate, std::string_view message, const std::string& where) {
  const std::string words =
      tidy(message) + (sqlstate.empty() ? "" : ", SQLSTATE ") + std::string(sqlstate);
  for (const auto& known : explanations) {
    if (!sqlstate.starts_with(known.code)) continue;
    std::string text = where + ": ";
    text.append(known.advice).append(" (").append(words).append(")");
    return {known.reason, text, std::string(sqlstate)};
  }
  return {Reason::other, where + ": " + words, std::string(sqlstate)};
}

void raise_connect_failure(const ConnectFailure& failure) {
  const std::string_view code = failure.sqlstate;
  const std::string words = without_location(failure.message);
  if (failure.needs_password || code.starts_with("28")) {
    throw ServerRefused(Reason::authentication, words);
  }
  if (code == "42501") throw ServerRefused(Reason::permission, words);
  if (code == "3D000") throw ServerRefused(Reason::other, words);  // no such database
  // PgBouncer has this code for everything. Its messages are always English.
  if (code == "08P01" && contains(words, "no such user")) {
    throw ServerRefused(Reason::authentication, words);
  }
  if (code.empty() && failure.read_only) throw ServerRefused(Reason::read_only, words);
  // The server is down, starting, stopping, or has no connection left. All of these pass by
  // themselves. The limit may be that of the server, the database or the role; the message says it.
  throw Unavailable(words);
}

bool ends_the_connection(std::string_view sqlstate) {
  // 57P01 to 57P05: the server ends the connection. 08: a pooler has lost it.
  return sqlstate.empty() || sqlstate.starts_with("57P") || sqlstate.starts_with("08");
}

void raise_statement_failure(std::string_view sqlstate, std::string_view message,
                             const std::string& where) {
  // 40003 says so itself. A server that ends the connection may have committed before it did.
  if (ends_the_connection(sqlstate) || sqlstate == "40003") {
    throw OutcomeUnknown(where + ": the connection was lost before the answer came (" +
                         tidy(message) + ")");
  }
  throw explain(sqlstate, message, where);
}

}  // namespace leasehold::inline v0::postgres
