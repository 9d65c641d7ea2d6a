#include "sqlite/database/sqlite_uri.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "leasehold/errors.hpp"
#include "leasehold/sqlite.hpp"
#include "support/quote.hpp"

namespace leasehold::inline v0::sqlite {
namespace {

constexpr std::string_view scheme = "sqlite:";
constexpr std::string_view memory = ":memory:";

[[noreturn]] void refuse(const std::string& what) {
  throw InvalidArgument("SQLite URI: " + what + "; expected " + std::string(sqlite_uri_forms));
}

bool may_stand_in_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

SqliteUri parse_memory(std::string_view name) {
  if (name.empty()) return {.kind = SqliteUri::Kind::private_memory};
  if (name.size() > 128 || !std::all_of(name.begin(), name.end(), may_stand_in_name)) {
    refuse("name " + in_quotes(name) +
           " is not 1 to 128 letters, digits, underscores, hyphens and dots");
  }
  return {.kind = SqliteUri::Kind::shared_memory, .name = std::string(name)};
}

/// "./" where it fails, so that no name of a file means anything else to SQLite.
std::string absolute(const std::string& path) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  return error ? "./" + path : absolute.string();
}

SqliteUri parse_path(std::string_view path) {
  // As in other URIs, // begins an authority, which has to be empty here.
  if (path.starts_with("//")) {
    if (!path.starts_with("///")) {
      refuse(in_quotes(path) + " names a host, and a file is on this machine");
    }
    path.remove_prefix(2);
  }
  if (path.empty()) refuse("the path is missing");
  if (path.find('?') != std::string_view::npos) {
    refuse("path " + in_quotes(path) + " has a ?, and there are no options");
  }
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20; };
  if (std::any_of(path.begin(), path.end(), is_control)) {
    refuse("path " + in_quotes(path) + " has a control character");
  }
  if (path.starts_with(':')) refuse("unknown word " + in_quotes(path));
  std::string name(path);
  std::string absolute_path = absolute(name);
  return {SqliteUri::Kind::file, std::move(name), std::move(absolute_path)};
}

}  // namespace

std::optional<SqliteUri> parse_sqlite_uri(std::string_view uri) {
  if (!uri.starts_with(scheme)) return std::nullopt;
  uri.remove_prefix(scheme.size());
  if (uri.starts_with(memory)) return parse_memory(uri.substr(memory.size()));
  return parse_path(uri);
}

std::string SqliteUri::display() const {
  std::string out{scheme};
  if (kind != Kind::file) out += memory;
  if (name.starts_with("//")) out += "//";  // or these would be taken for an authority
  return out + name;
}

}  // namespace leasehold::inline v0::sqlite

namespace leasehold::inline v0 {

std::optional<std::string> sqlite_file(std::string_view uri) {
  auto parsed = sqlite::parse_sqlite_uri(uri);
  if (!parsed || parsed->kind != sqlite::SqliteUri::Kind::file) return std::nullopt;
  return std::move(parsed->name);
}

}  // namespace leasehold::inline v0
