#include "redis/redis_uri.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "leasehold/errors.hpp"
#include "support/quote.hpp"

namespace leasehold::inline v0::redis {
namespace {

constexpr int sentinel_port = 26'379;
constexpr std::size_t most_seeds = 100;

[[noreturn]] void refuse(const std::string& what) {
  throw InvalidArgument("Redis URI: " + what + "; expected " + std::string(redis_uri_forms));
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

/// The opposite of percent_decode().
std::string percent_encode(std::string_view text) {
  constexpr std::string_view plain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    if (plain.find(c) != plain.npos) {
      encoded += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      encoded += {'%', digits[byte / 16], digits[byte % 16]};
    }
  }
  return encoded;
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
std::string shown_port(std::string_view port, const std::string& host, const RedisUri& uri) {
  constexpr std::size_t longest_port = 5;
  const bool like_a_port =
      port.size() <= longest_port && port.find_first_not_of("0123456789") == std::string_view::npos;
  const bool may_be_secret = uri.password.empty() && !like_a_port;
  return may_be_secret ? "the port of host " + in_quotes(host) : "port " + in_quotes(port);
}

RedisUri::Address parse_address(std::string_view text, int default_port, const RedisUri& uri) {
  RedisUri::Address address{.host = {}, .port = default_port};
  std::string_view port;
  bool has_port = false;
  if (text.starts_with('[')) {  // an IPv6 address
    const auto close = text.find(']');
    if (close == std::string_view::npos) refuse("host " + in_quotes(text) + " has no closing ]");
    address.host = text.substr(1, close - 1);
    const std::string_view rest = text.substr(close + 1);
    if (!rest.empty() && rest.front() != ':') refuse("unexpected " + in_quotes(rest) + " after ]");
    has_port = !rest.empty();
    if (has_port) port = rest.substr(1);
  } else {
    const auto colon = text.find(':');
    address.host = text.substr(0, colon);
    has_port = colon != std::string_view::npos;
    if (has_port) port = text.substr(colon + 1);
  }
  if (address.host.empty()) refuse("the host is missing");
  for (const char c : address.host) {
    if (static_cast<unsigned char>(c) <= ' ' || c == '#' || c == '[' || c == ']') {
      refuse("host " + in_quotes(address.host) + " has a character that no host has");
    }
  }
  if (has_port) {
    const auto number = parse_number(port, 1, 65535);
    if (!number) refuse(shown_port(port, address.host, uri) + " is not a number from 1 to 65535");
    address.port = *number;
  }
  return address;
}

constexpr std::array<std::string_view, 8> option_names{
    "db", "sentinel_user", "sentinel_password", "ca", "cert", "key", "server_name", "verify"};

/// Parses what stands before the last @ and returns what follows it.
std::string_view take_credentials(std::string_view text, RedisUri& uri) {
  const auto at = text.rfind('@');
  if (at == std::string_view::npos) return text;
  for (const std::string_view name : option_names) {
    const auto option = text.find("?" + std::string(name) + "=");
    if (option < at) refuse("an @ after ?" + std::string(name) + "= must be written as %40");
  }
  parse_credentials(text.substr(0, at), uri);
  return text.substr(at + 1);
}

/// Cuts off what follows the first `mark`, and returns it.
std::optional<std::string_view> cut_at(std::string_view& text, char mark) {
  const auto at = text.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = text.substr(at + 1);
  text = text.substr(0, at);
  return rest;
}

void set_tls_option(RedisTls& tls, std::string_view name, const std::string& value) {
  if (name == "ca") tls.ca = value;
  if (name == "cert") tls.certificate = value;
  if (name == "key") tls.key = value;
  if (name == "server_name") tls.server_name = value;
  if (name != "verify") return;
  if (value != "full" && value != "none") {
    refuse("verify=" + value + " is unknown, allowed are full and none");
  }
  tls.verify = value == "none" ? RedisTls::Verify::none : RedisTls::Verify::full;
}

/// The names of the options that this URI may have.
std::vector<std::string_view> allowed_options(const RedisUri& uri) {
  std::vector<std::string_view> names;
  if (!uri.socket.empty()) names.emplace_back("db");
  if (uri.topology == RedisUri::Topology::sentinel) {
    names.insert(names.end(), {"sentinel_user", "sentinel_password"});
  }
  if (uri.tls) names.insert(names.end(), {"ca", "cert", "key", "server_name", "verify"});
  return names;
}

/// Only what looks like a name is shown in messages: a value, or the rest of redis://user:a?b where
/// @host was forgotten, may be a password.
std::string shown_option(std::string_view name, bool has_value) {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz_";
  const bool is_name = has_value && name.find_first_not_of(letters) == std::string_view::npos;
  return is_name ? "unknown option " + in_quotes(name) + " after ?" : "unknown option after ?";
}

void parse_option(std::string_view option, RedisUri& uri) {
  const auto value = cut_at(option, '=');
  const auto allowed = allowed_options(uri);
  if (!value || std::find(allowed.begin(), allowed.end(), option) == allowed.end()) {
    std::string names;
    for (const std::string_view name : allowed) {
      names += (names.empty() ? "" : ", ") + std::string(name) + "=";
    }
    refuse(shown_option(option, value.has_value()) + ", " +
           (names.empty() ? "this kind of URI has none" : "allowed are " + names));
  }
  const std::string text = percent_decode(*value, std::string(option).c_str());
  if (option == "db") {
    uri.database = parse_database(text);
  } else if (option == "sentinel_user") {
    uri.sentinel_user = text;
  } else if (option == "sentinel_password") {
    uri.sentinel_password = text;
  } else {
    set_tls_option(*uri.tls, option, text);
  }
}

void parse_options(std::optional<std::string_view> query, RedisUri& uri) {
  while (query) {
    std::string_view option = *query;
    query = cut_at(option, '&');
    parse_option(option, uri);
  }
  if (!uri.sentinel_user.empty() && uri.sentinel_password.empty()) {
    refuse("sentinel_user needs a sentinel_password");
  }
}

void parse_server(std::string_view address, RedisUri& uri) {
  const auto database = cut_at(address, '/');
  const auto server = parse_address(address, uri.port, uri);
  uri.host = server.host;
  uri.port = server.port;
  if (database && !database->empty()) uri.database = parse_database(*database);
}

void parse_seeds(std::string_view list, int default_port, RedisUri& uri) {
  for (std::optional<std::string_view> rest = list; rest;) {
    std::string_view address = *rest;
    rest = cut_at(address, ',');
    uri.seeds.push_back(parse_address(address, default_port, uri));
  }
  if (uri.seeds.size() > most_seeds) {
    refuse("at most 100 hosts are allowed, got " + std::to_string(uri.seeds.size()));
  }
}

void parse_sentinels(std::string_view address, RedisUri& uri) {
  auto service = cut_at(address, '/');
  parse_seeds(address, sentinel_port, uri);
  const auto database = service ? cut_at(*service, '/') : std::nullopt;
  if (!service || service->empty()) refuse("the service, the sentinels' name for it, is missing");
  uri.service = percent_decode(*service, "the service");
  if (database && !database->empty()) uri.database = parse_database(*database);
}

void parse_cluster(std::string_view address, RedisUri& uri) {
  const auto database = cut_at(address, '/');
  parse_seeds(address, uri.port, uri);
  if (database && !database->empty() && parse_database(*database) != 0) {
    refuse("database " + in_quotes(*database) + " cannot be chosen: a cluster has only 0");
  }
}

void parse_socket(std::string_view path, RedisUri& uri) {
  if (path.empty()) refuse("the path of the socket is missing");
  // The path is not shown: in redis+unix://user:password/path, without the @, it has the password.
  if (path.front() != '/') refuse("the path of the socket does not begin with /");
  for (const char c : path) {  // a zero byte would end the path for the kernel
    if (static_cast<unsigned char>(c) < ' ')
      refuse("the path of the socket has a control character");
  }
  constexpr std::size_t longest = 107;  // sockaddr_un::sun_path with its terminating zero
  if (path.size() > longest) refuse("socket path " + in_quotes(path) + " is longer than 107 bytes");
  uri.socket = path;
}

struct Scheme {
  std::string_view text;
  void (*parse)(std::string_view address, RedisUri& uri);
  RedisUri::Topology topology;
  bool tls;
};

constexpr std::array schemes{
    Scheme{"redis", parse_server, RedisUri::Topology::server, false},
    Scheme{"rediss", parse_server, RedisUri::Topology::server, true},
    Scheme{"redis+unix", parse_socket, RedisUri::Topology::server, false},
    Scheme{"redis+sentinel", parse_sentinels, RedisUri::Topology::sentinel, false},
    Scheme{"rediss+sentinel", parse_sentinels, RedisUri::Topology::sentinel, true},
    Scheme{"redis+cluster", parse_cluster, RedisUri::Topology::cluster, false},
    Scheme{"rediss+cluster", parse_cluster, RedisUri::Topology::cluster, true},
};

}  // namespace

RedisUri RedisUri::parse(std::string_view uri, const RedisTls& tls) {
  // Only what can be a scheme is shown, because anything else may contain a password.
  const auto scheme_end = uri.find("://");
  if (scheme_end == std::string_view::npos || scheme_end > uri.find_first_of(":@/")) {
    refuse("the scheme is missing");
  }
  const std::string_view name = uri.substr(0, scheme_end);
  const auto* const scheme = std::find_if(schemes.begin(), schemes.end(),
                                          [&](const Scheme& each) { return each.text == name; });
  if (scheme == schemes.end()) refuse("unknown scheme " + in_quotes(name));
  RedisUri parsed;
  parsed.topology = scheme->topology;
  if (scheme->tls) parsed.tls = tls;
  // The path is looked for after the credentials, because a password may contain a slash.
  std::string_view address = take_credentials(uri.substr(scheme_end + 3), parsed);
  const auto query = cut_at(address, '?');
  scheme->parse(address, parsed);
  parse_options(query, parsed);
  return parsed;
}

RedisUri RedisUri::at(const Address& address) const {
  RedisUri one = *this;
  one.is_cluster_node = topology == Topology::cluster;
  one.topology = Topology::server;
  one.seeds.clear();
  one.host = address.host;
  one.port = address.port;
  return one;
}

RedisUri RedisUri::sentinel_at(const Address& address) const {
  RedisUri one = at(address);
  one.user = sentinel_user;
  one.password = sentinel_password;
  one.database = 0;
  one.is_sentinel = true;
  return one;
}

std::string to_text(const RedisUri::Address& address) {
  const std::string host =
      address.host.find(':') == std::string::npos ? address.host : "[" + address.host + "]";
  return host + ":" + std::to_string(address.port);
}

std::string RedisUri::display() const {
  const std::string db = std::to_string(database);
  if (!socket.empty()) return "redis+unix://" + socket + (database ? "?db=" + db : "");
  std::string text = tls ? "rediss" : "redis";
  if (topology == Topology::server) {
    text += "://" + to_text({host, port});
  } else {
    text += topology == Topology::sentinel ? "+sentinel://" : "+cluster://";
    for (const Address& seed : seeds) text += (&seed == &seeds.front() ? "" : ",") + to_text(seed);
    if (!service.empty()) text += "/" + percent_encode(service);
  }
  return text + (database ? "/" + db : "");
}

}  // namespace leasehold::inline v0::redis
