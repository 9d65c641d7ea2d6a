#include "postgres/statement.hpp"

#include <functional>

namespace leasehold::inline v0::postgres {
namespace {

/// Removes the comments at the head, which are for readers and not for the server.
std::string_view without_header(std::string_view text) {
  while (text.starts_with("--")) text.remove_prefix(text.find('\n') + 1);
  return text;
}

}  // namespace

std::string in_schema(std::string_view text, const std::string& schema) {
  constexpr std::string_view written = "\"leasehold\"";
  const std::string wanted = '"' + schema + '"';
  std::string out;
  std::size_t from = 0;
  for (std::size_t at = 0; (at = text.find(written, from)) != std::string_view::npos;) {
    out.append(text, from, at - from);
    out += wanted;
    from = at + written.size();
  }
  out.append(text, from);
  return out;
}

Statement::Statement(const EmbeddedText& file, const std::string& schema, Plan plan)
    : name(file.name),
      // The name is shown in pg_stat_activity.
      text("/* leasehold " + name + " */ " + in_schema(without_header(file.text), schema)) {
  if (plan == Plan::kept) {
    prepared_name = "leasehold_" + name + "_" + std::to_string(std::hash<std::string>{}(text));
  }
}

}  // namespace leasehold::inline v0::postgres
