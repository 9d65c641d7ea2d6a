#pragma once

#include <string>

#include "support/embedded_text.hpp"

namespace leasehold::inline v0::postgres {

/// Whether a connection may keep the plan of a statement.
enum class Plan {
  made_each_time,  ///< no: the best plan depends on the size of the tables
  kept,            ///< yes: the statement only calls a function
};

/// A statement of sql/queries for one schema. The files write the schema as "leasehold", in
/// quotes.
struct Statement {
  Statement(const EmbeddedText& file, const std::string& schema, Plan plan = Plan::made_each_time);

  std::string name;
  std::string text;
  /// The name under which it is prepared, or empty. It contains a hash of the text: behind a pooler
  /// another process may have prepared the statement in this session.
  std::string prepared_name;
};

/// Replaces "leasehold" in a text by the schema.
std::string in_schema(std::string_view text, const std::string& schema);

}  // namespace leasehold::inline v0::postgres
