#pragma once

#include <string>

#include "support/embedded_text.hpp"

namespace leasehold::inline v0::postgres {

/// Whether a connection may keep the plan of a statement.
enum class Plan {
  made_each_time,  ///< it depends on how large the tables are now
  kept,            ///< there is only one: the statement just calls a function
};

/// A file of sql/ for a certain schema. The files write the schema as "leasehold", in quotes.
struct Statement {
  Statement(const EmbeddedText& file, const std::string& schema, Plan plan = Plan::made_each_time);

  std::string name;
  std::string text;
  /// What to prepare it as, or empty. The same name is the same text, whoever prepared it: behind a
  /// pooler the session may be anybody's.
  std::string prepared_name;
};

/// The text of a file with "leasehold" replaced by the schema.
std::string in_schema(std::string_view text, const std::string& schema);

}  // namespace leasehold::inline v0::postgres
