#include "sqlite/locks/lock_cleanup.hpp"

#include <vector>

#include "sqlite_lock_queries.hpp"

namespace leasehold::inline v0::sqlite {
namespace {

constexpr int cleaned_names_a_page = 1'000;

}  // namespace

std::string clean_page(Transaction& transaction, LockEffects& effects, std::string_view last,
                       std::chrono::milliseconds keep_counters) {
  std::string page_end;
  {
    auto row = transaction.prepare(lock_sql::page_end, last, cleaned_names_a_page);
    if (!row.step() || row.is_null(0)) return {};
    page_end = row.text(0);
  }
  const ClockReading clock = ClockReading::now();
  transaction.execute(lock_sql::remove_expired, last, page_end, clock.since_boot);
  std::vector<std::string> unsettled;
  {
    auto rows = transaction.prepare(lock_sql::unsettled_lines, last, page_end, clock.since_boot);
    while (rows.step()) unsettled.emplace_back(rows.text(0));
  }
  for (const std::string& name : unsettled) {
    LockLine line(transaction, name, clock, effects);
    line.settle();
    line.advance();
    line.tidy();
  }
  transaction.execute(lock_sql::remove_tokens, last, page_end, clock.wall - keep_counters);
  return page_end;
}

}  // namespace leasehold::inline v0::sqlite
