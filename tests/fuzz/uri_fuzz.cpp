// URIs, as they come from configuration files and the environment.
#include "leasehold/errors.hpp"
#include "redis/redis_uri.hpp"
#include "sqlite/database/sqlite_uri.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace leasehold::fuzz {
namespace {

using redis::RedisUri;

std::optional<RedisUri> parsed(std::string_view text) {
  try {
    return RedisUri::parse(text);
  } catch (const InvalidArgument&) {
    return std::nullopt;
  }
}

void check_redis(std::string_view text) {
  const auto uri = parsed(text);
  if (!uri) return;
  const int places =
      (uri->host.empty() ? 0 : 1) + (uri->socket.empty() ? 0 : 1) + (uri->seeds.empty() ? 0 : 1);
  expect(places == 1, "a Redis URI has a host, a socket, or several hosts to ask");
  expect(uri->socket.find('\0') == std::string::npos, "a path is not cut at a zero byte");
  const auto again = parsed(uri->display());
  expect(again && again->topology == uri->topology && again->host == uri->host &&
             again->port == uri->port && again->socket == uri->socket &&
             again->seeds == uri->seeds && again->service == uri->service &&
             again->database == uri->database,
         "what is shown of a Redis URI leads to the same server");
}

void check_secret(std::string_view rest) {
  const auto split = rest.find('|');
  const std::string secret = "7h1s-1s-53cr37";
  // libFuzzer may find the secret by watching the comparisons, and write it into the host.
  if (split == std::string_view::npos || rest.find(secret) != std::string_view::npos) return;
  const std::string uri = "redis://" + std::string(rest.substr(0, split)) + ':' + secret + '@' +
                          std::string(rest.substr(split + 1));
  std::string shown;
  try {
    shown = RedisUri::parse(uri).display();
  } catch (const InvalidArgument& error) {
    shown = error.what();
  }
  expect(shown.find(secret) == std::string::npos, "the password is never shown");
}

void check_sqlite(std::string_view text) {
  try {
    const auto uri = sqlite::parse_sqlite_uri(text);
    if (!uri) return;
    const auto again = sqlite::parse_sqlite_uri(uri->display());
    expect(again && again->kind == uri->kind && again->name == uri->name,
           "what is shown of a SQLite URI leads to the same store");
  } catch (const InvalidArgument&) {
  }
}

}  // namespace
}  // namespace leasehold::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace leasehold::fuzz;
  const std::string_view text = as_text(data, size);
  check_redis(text);
  check_secret(text);
  check_sqlite(text);
  return 0;
}
