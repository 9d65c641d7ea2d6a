#include "redis/redis_uri.hpp"

#include <charconv>
#include <optional>

#include "leasehold/errors.hpp"
#include "support/quote.hpp"

namespace leasehold::inline v0::redis {
namespace {

constexpr std::string_view expected =
    "expected redis://[user:password@]host[:port][/db] or redis+unix:///path[?db=n]";

[[noreturn]] void refuse(const std::string& what) {
  throw InvalidArgument("Redis URI: " + what + "; " + std::string(expected));
}

std::optional<int> parse_number(std::string_view text, int least, int most) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (value < least || value > most) return std::nullopt;
  return value;
}

int parse_database(std::string_view text) {
  const auto number = parse_number(text, 0, 1'000'000);
  if (!number) refuse("database " + in_quotes(text) + " is not a number from 0 to 1000000");
  return *number;
}

/// `what` names the part for the message. Its text is not shown because it may be a secret.
std::string percent_decode(std::string_view text, const char* what) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    unsigned value = 0;
    const std::string_view digits = text.substr(i + 1, 2);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.size() != 2 || error != std::errc{} || end != digits.data() + 2) {
      refuse(std::string(what) + " has a % that is not followed by two hex digits");
    }
    out += static_cast<char>(value);
    i += 2;
  }
  return out;
}

void parse_credentials(std::string_view text, RedisUri& uri) {
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) {
    refuse("the part before @ has no colon between user and password (use :password@ for no user)");
  }
  uri.user = percent_decode(text.substr(0, colon), "the user");
  uri.password = percent_decode(text.substr(colon + 1), "the password");
  if (uri.password.empty()) refuse("the password before @ is empty");
}

/// In redis://user:password, where @host was forgotten, the password stands in place of the port.
/// So only digits that are no longer than a port are shown; a port in range is shown everywhere
/// anyway.
std::string shown_port(std::string_view port, const RedisUri& uri) {
  constexpr std::size_t longest_port = 5;
  const bool like_a_port =
      port.size() <= longest_port && port.find_first_not_of("0123456789") == std::string_view::npos;
  const bool may_be_secret = uri.password.empty() && !like_a_port;
  return may_be_secret ? "the port of host " + in_quotes(uri.host) : "port " + in_quotes(port);
}

void parse_host_and_port(std::string_view text, RedisUri& uri) {
  std::string_view port;
  bool has_port = false;
  if (text.starts_with('[')) {  // an IPv6 address
    const auto close = text.find(']');
    if (close == std::string_view::npos) refuse("host " + in_quotes(text) + " has no closing ]");
    uri.host = text.substr(1, close - 1);
    const std::string_view rest = text.substr(close + 1);
    if (!rest.empty() && rest.front() != ':') refuse("unexpected " + in_quotes(rest) + " after ]");
    has_port = !rest.empty();
    if (has_port) port = rest.substr(1);
  } else {
    const auto colon = text.find(':');
    uri.host = text.substr(0, colon);
    has_port = colon != std::string_view::npos;
    if (has_port) port = text.substr(colon + 1);
  }
  if (uri.host.empty()) refuse("the host is missing");
  for (const char c : uri.host) {
    if (static_cast<unsigned char>(c) <= ' ' || c == '?' || c == '#' || c == '[' || c == ']') {
      refuse("host " + in_quotes(uri.host) + " has a character that no host has");
    }
  }
  if (has_port) {
    const auto number = parse_number(port, 1, 65535);
    if (!number) refuse(shown_port(port, uri) + " is not a number from 1 to 65535");
    uri.port = *number;
  }
}

/// Parses what stands before the last @ and returns what follows it.
std::string_view take_credentials(std::string_view text, RedisUri& uri) {
  const auto at = text.rfind('@');
  if (at == std::string_view::npos) return text;
  parse_credentials(text.substr(0, at), uri);
  return text.substr(at + 1);
}

RedisUri parse_tcp(std::string_view rest) {
  RedisUri uri;
  // The path is looked for after the credentials, because a password may contain a slash.
  const std::string_view address = take_credentials(rest, uri);
  const auto slash = address.find('/');
  parse_host_and_port(address.substr(0, slash), uri);
  if (slash != std::string_view::npos && slash + 1 < address.size()) {
    uri.database = parse_database(address.substr(slash + 1));
  }
  return uri;
}

RedisUri parse_unix(std::string_view rest) {
  RedisUri uri;
  std::string_view path = take_credentials(rest, uri);
  // The path is not shown: in redis+unix://user:password/path, without the @, it has the password.
  if (!path.empty() && path.front() != '/' && path.front() != '?') {
    refuse("the path of the socket does not begin with /");
  }
  const auto question = path.find('?');
  if (question != std::string_view::npos) {
    const std::string_view query = path.substr(question + 1);
    if (!query.starts_with("db="))
      refuse("unknown option " + in_quotes(query) + ", only db= is known");
    uri.database = parse_database(query.substr(3));
    path = path.substr(0, question);
  }
  if (path.empty()) refuse("the path of the socket is missing");
  for (const char c : path) {  // a zero byte would end the path for the kernel
    if (static_cast<unsigned char>(c) < ' ')
      refuse("the path of the socket has a control character");
  }
  constexpr std::size_t longest = 107;  // sockaddr_un::sun_path with its terminating zero
  if (path.size() > longest) refuse("socket path " + in_quotes(path) + " is longer than 107 bytes");
  uri.socket = path;
  return uri;
}

}  // namespace

RedisUri RedisUri::parse(std::string_view uri) {
  constexpr std::string_view tcp = "redis://";
  constexpr std::string_view unix_socket = "redis+unix://";
  if (uri.starts_with(tcp)) return parse_tcp(uri.substr(tcp.size()));
  if (uri.starts_with(unix_socket)) return parse_unix(uri.substr(unix_socket.size()));
  if (uri.starts_with("rediss://")) refuse("TLS (rediss://) is not supported yet");
  // Only what can be a scheme is shown, because anything else may contain a password.
  const auto scheme_end = uri.find("://");
  if (scheme_end == std::string_view::npos || scheme_end > uri.find_first_of(":@/")) {
    refuse("the scheme is missing");
  }
  refuse("unknown scheme " + in_quotes(uri.substr(0, scheme_end)));
}

std::string RedisUri::display() const {
  const std::string db = std::to_string(database);
  if (!socket.empty()) return "redis+unix://" + socket + (database ? "?db=" + db : "");
  const std::string shown = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return "redis://" + shown + ":" + std::to_string(port) + (database ? "/" + db : "");
}

}  // namespace leasehold::inline v0::redis
