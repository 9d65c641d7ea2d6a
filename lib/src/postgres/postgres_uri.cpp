#include "postgres/postgres_uri.hpp"

#include <libpq-fe.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "leasehold/errors.hpp"
#include "support/quote.hpp"
#include "support/ranges.hpp"

namespace leasehold::inline v0::postgres {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

using Options = std::map<std::string, std::string>;

struct FreeOptions {
  void operator()(PQconninfoOption* options) const { PQconninfoFree(options); }
};

/// The hosts that the environment or a service file gives to a URI without any, so that we can go
/// through a list of them as well.
void add_default_hosts(Options& given) {
  if (given.count("host") + given.count("hostaddr") + given.count("service") != 0) return;
  const std::unique_ptr<PQconninfoOption, FreeOptions> defaults(PQconndefaults());
  if (!defaults) return;
  for (const auto* option = defaults.get(); option->keyword != nullptr; ++option) {
    const std::string key = option->keyword;
    const std::string value = option->val == nullptr ? "" : option->val;
    const bool is_host = key == "host" || key == "hostaddr" || key == "port";
    const bool is_choice = key == "target_session_attrs" && value != "any";  // libpq's own default
    if (!value.empty() && (is_host || is_choice)) given.emplace(key, value);
  }
}

/// The options that libpq finds in a URI. Its error messages are not passed on, because they may
/// quote the URI and with it a password.
Options parse_options(const std::string& uri) {
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
  Options given;
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

/// What we ask of libpq unless the URI says something else. A host that is lost without a word is
/// noticed after a minute at the latest, also by a connection that only listens.
constexpr std::array<std::pair<const char*, const char*>, 6> defaults{{
    {"fallback_application_name", "leasehold"},
    {"keepalives", "1"},
    {"keepalives_idle", "20"},
    {"keepalives_interval", "10"},
    {"keepalives_count", "3"},
    {"tcp_user_timeout", "30000"},
}};

/// The time-out that the URI gives, in seconds as for libpq, where 0 means none.
std::optional<milliseconds> connect_timeout_of(const Options& given) {
  const auto found = given.find("connect_timeout");
  if (found == given.end()) return std::nullopt;
  long count = 0;
  const std::string& text = found->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw InvalidArgument(
        "connect_timeout in the PostgreSQL URI must be a number of seconds, got " +
        in_quotes(text));
  }
  constexpr long most = 3'600;
  return seconds{count <= 0 ? most : std::min(count, most)};
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  for (std::size_t from = 0;;) {
    const auto comma = list.find(',', from);
    parts.push_back(list.substr(from, comma - from));
    if (comma == std::string::npos) return parts;
    from = comma + 1;
  }
}

/// Each host by itself. libpq would go through a list too, but it does not go on to the next host
/// after every failure, and tells only for all of them together what was wrong.
std::vector<PostgresUri::Host> hosts_of(const Options& given) {
  const auto list_of = [&](const char* key) {
    const auto found = given.find(key);
    return found == given.end() ? std::vector<std::string>{} : split(found->second);
  };
  const auto names = list_of("host");
  const auto addresses = list_of("hostaddr");
  const auto ports = list_of("port");
  const std::size_t count = std::max({names.size(), addresses.size(), std::size_t{1}});
  const auto fits = [&](const std::vector<std::string>& list) {
    return list.size() <= 1 || list.size() == count;
  };
  if ((!names.empty() && names.size() != count) ||
      (!addresses.empty() && addresses.size() != count) || !fits(ports)) {
    throw InvalidArgument("the PostgreSQL URI has lists of hosts and ports of different lengths");
  }
  std::vector<PostgresUri::Host> hosts;
  for (std::size_t i = 0; i < count; ++i) {
    Options own = given;
    if (!names.empty()) own["host"] = names[i];
    if (!addresses.empty()) own["hostaddr"] = addresses[i];
    if (!ports.empty()) own["port"] = ports[ports.size() == 1 ? 0 : i];
    // Of several hosts, one is the primary. We write, so a standby is of no use.
    if (count > 1) own.emplace("target_session_attrs", "read-write");
    PostgresUri::Host host;
    for (const auto& [key, value] : own) host.conninfo += key + "=" + quoted(value) + " ";
    const bool is_socket =
        !names.empty() && (names[i].starts_with('/') || names[i].starts_with('@'));
    if (!names.empty() && !is_socket && (addresses.empty() || addresses[i].empty())) {
      host.name = names[i];
    }
    hosts.push_back(std::move(host));
  }
  return hosts;
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
  add_default_hosts(given);
  for (const auto& [key, value] : defaults) given.emplace(key, value);
  given["client_encoding"] = "UTF8";  // all texts of ours are

  PostgresUri result;
  result.connect_timeout = connect_timeout_of(given).value_or(connect_timeout);
  result.hosts = hosts_of(given);
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
  check_range<milliseconds>("idle_timeout", options.idle_timeout, milliseconds{1},
                            std::chrono::hours{24});
}

}  // namespace leasehold::inline v0::postgres
