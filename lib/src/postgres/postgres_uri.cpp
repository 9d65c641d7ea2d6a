#include "postgres/postgres_uri.hpp"

#include <libpq-fe.h>

#include <algorithm>
#include <map>
#include <memory>

#include "leasehold/errors.hpp"
#include "support/quote.hpp"
#include "support/ranges.hpp"

namespace leasehold::inline v0::postgres {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct FreeOptions {
  void operator()(PQconninfoOption* options) const { PQconninfoFree(options); }
};

/// The options that libpq finds in a URI. Its error messages are not passed on, because they may
/// quote the URI and with it a password.
std::map<std::string, std::string> parse_options(const std::string& uri) {
  char* message = nullptr;
  const std::unique_ptr<PQconninfoOption, FreeOptions> options(
      PQconninfoParse(uri.c_str(), &message));
  PQfreemem(message);
  if (!options) {
    throw InvalidArgument(
        "the PostgreSQL URI is malformed: expected "
        "postgresql://[user[:password]@]host[:port]/database[?option=value&…] or libpq's "
        "key=value form");
  }
  std::map<std::string, std::string> given;
  for (const auto* option = options.get(); option->keyword != nullptr; ++option) {
    if (option->val != nullptr) given[option->keyword] = option->val;
  }
  return given;
}

std::string quoted(const std::string& value) {
  std::string out = "'";
  for (const char c : value) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

}  // namespace

PostgresUri parse_uri(std::string_view uri, milliseconds connect_timeout) {
  const bool is_uri = uri.starts_with("postgresql://") || uri.starts_with("postgres://");
  const bool is_pairs =
      uri.find("://") == std::string_view::npos && uri.find('=') != std::string_view::npos;
  if (!is_uri && !is_pairs) {
    const auto scheme = uri.substr(0, std::min(uri.find(':'), uri.size()));
    throw InvalidArgument(
        "the task queue's URI must begin with postgresql://, postgres:// or sqlite: (sqlite:path, "
        "sqlite::memory: or sqlite::memory:name), or have libpq's key=value form; it begins with " +
        in_quotes(scheme));
  }
  if (uri.find('\0') != std::string_view::npos) {
    throw InvalidArgument("the PostgreSQL URI contains a NUL byte");
  }
  auto given = parse_options(std::string(uri));
  given.emplace("connect_timeout",
                std::to_string(std::chrono::ceil<seconds>(connect_timeout).count()));
  given.emplace("fallback_application_name", "leasehold");

  PostgresUri result;
  for (const auto& [key, value] : given) result.conninfo += key + "=" + quoted(value) + " ";
  const auto or_default = [&](const char* key, const char* otherwise) {
    const auto found = given.find(key);
    return found == given.end() ? std::string(otherwise) : found->second;
  };
  result.display = "postgresql://" + or_default("host", "localhost") + ":" +
                   or_default("port", "5432") + "/" + or_default("dbname", "");
  return result;
}

void check_schema(std::string_view schema) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const bool valid = !schema.empty() && schema.size() <= 63 && is_letter(schema.front()) &&
                     std::all_of(schema.begin(), schema.end(),
                                 [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
  if (!valid) {
    throw InvalidArgument(
        "schema must be a letter or _, followed by at most 62 letters, digits or _, got " +
        in_quotes(schema));
  }
}

void check_postgres_options(const PostgresOptions& options) {
  check_schema(options.schema);
  check_range<std::size_t>("connections", options.connections, 1, 1'000);
  check_range<milliseconds>("connect_timeout", options.connect_timeout, milliseconds{1},
                            std::chrono::hours{1});
  check_range<milliseconds>("command_timeout", options.command_timeout, milliseconds{1},
                            std::chrono::hours{1});
}

}  // namespace leasehold::inline v0::postgres
