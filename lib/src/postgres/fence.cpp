#include "postgres/fence.hpp"

#include "postgres/callers_transaction.hpp"
#include "postgres/postgres_uri.hpp"
#include "postgres/statement.hpp"
#include "sql_queries.hpp"

namespace leasehold::inline v0::postgres {

void fence(pqxx::transaction_base& transaction, std::string_view resource, std::int64_t token,
           std::string_view schema) {
  check_schema(schema);
  check_client_encoding(transaction);
  Params params;
  params.add(resource).add(token);
  const Statement statement(sql::fence, std::string(schema));
  in_transaction_of_caller(transaction, [&](pqxx::transaction_base& callers) {
    execute(callers, statement.text, params);
  });
}

}  // namespace leasehold::inline v0::postgres
