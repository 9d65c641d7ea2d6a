#include "sqlite/tasks/fence.hpp"

#include <string>

#include "leasehold/errors.hpp"
#include "sqlite/database/callers_connection.hpp"
#include "sqlite/database/machine_clock.hpp"
#include "sqlite_task_sql.hpp"

namespace leasehold::inline v0::sqlite {

void fence(sqlite3* transaction, std::string_view resource, std::int64_t token) {
  check_in_transaction(transaction);
  const std::string where = path_of(transaction);
  if (!has_table(transaction, "task_fences")) {
    throw ServerRefused(ServerRefused::Reason::no_schema,
                        where + ": the tables do not exist: run migrate");
  }
  in_callers_transaction(transaction, where, [&](Connection& connection) {
    connection.execute(task_sql::fence, resource, token, wall_clock());
    auto seen = connection.prepare(task_sql::fence_seen, resource);
    seen.step();
    if (seen.integer(0) > token) {
      throw StaleToken("stale fencing token " + std::to_string(token) + " for " +
                       std::string(resource) + ": " + std::to_string(seen.integer(0)) +
                       " was seen");
    }
  });
}

}  // namespace leasehold::inline v0::sqlite
