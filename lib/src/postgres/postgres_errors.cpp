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
    Explanation{"55P03", Reason::conflict, "could not lock the row within lock_timeout"},
    Explanation{"25006", Reason::read_only,
                "this server is read-only: point the URI at the primary"},
    Explanation{"42P01", Reason::no_schema, "the tables do not exist: run migrate"},
    Explanation{"42883", Reason::no_schema, "the functions do not exist: run migrate"},
    Explanation{"42703", Reason::no_schema, "the tables are too old: run migrate"},
    Explanation{"3F000", Reason::no_schema, "the schema does not exist: run migrate"},
    Explanation{"42501", Reason::permission, "the user lacks a right"},
    Explanation{"28", Reason::authentication, "wrong user or password in the URI"},
    Explanation{"57014", Reason::other,
                "cancelled, or it took longer than the server's statement_timeout"},
    Explanation{"53100", Reason::other, "the server's disk is full"},
    Explanation{"53200", Reason::out_of_memory, "the server is out of memory"},
};

/// One line, without the newline that libpq puts at the end.
std::string tidy(std::string_view message) {
  std::string text(message);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
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

void raise_connect_failure(std::string_view message, const std::string& where) {
  const std::string words = where + ": " + tidy(message);
  // The limit may be that of the server, the database or the role; the message names it.
  if (contains(message, "too many connections")) throw Unavailable(words);
  for (const auto* refusal : {"authentication failed", "no password supplied", "pg_hba.conf",
                              "role \"", "no such user"}) {
    if (contains(message, refusal)) throw ServerRefused(Reason::authentication, words);
  }
  if (contains(message, "permission denied for database")) {
    throw ServerRefused(Reason::permission, words);
  }
  if (contains(message, "database \"") && contains(message, "does not exist")) {
    throw ServerRefused(Reason::other, words);
  }
  // The server is down, starting, stopping or full. All of these pass by themselves.
  throw Unavailable(words);
}

}  // namespace leasehold::inline v0::postgres
