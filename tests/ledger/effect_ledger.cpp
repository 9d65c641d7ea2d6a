#include "tests/ledger/effect_ledger.hpp"

#include <pqxx/pqxx>
#include <sstream>

namespace leasehold::testing {
namespace {

/// Collects the rules that were broken.
class Findings {
 public:
  void expect(std::int64_t found, std::int64_t wanted, const std::string& what) {
    if (found != wanted) text_ << found << " " << what << ", and not " << wanted << "\n";
  }
  void expect_at_most(std::int64_t found, std::int64_t most, const std::string& what) {
    if (found > most) text_ << found << " " << what << ", but at most " << most << "\n";
  }
  void add(const std::string& line) { text_ << line << "\n"; }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
};

// What is known about the first few numbers that have too many or too few effects.
void explain_wrong_numbers(pqxx::connection_base& connection, std::int64_t tasks,
                           Findings& findings) {
  pqxx::nontransaction look{connection};
  const auto wrong = look.exec(
      "SELECT number, count(ledger.number), "
      "       coalesce(string_agg('task ' || task || ' version ' || version || ' by ' || worker, "
      "                           ', '), 'nobody') "
      "FROM generate_series(0, " +
      std::to_string(tasks - 1) +
      ") AS number LEFT JOIN ledger USING (number) "
      "GROUP BY number HAVING count(ledger.number) <> 1 ORDER BY number LIMIT 10");
  for (const auto& row : wrong) {
    findings.add("number " + row[0].as<std::string>() + " has " + row[1].as<std::string>() +
                 " effects: " + row[2].as<std::string>());
  }
}

}  // namespace

std::int64_t number_of(pqxx::connection_base& connection, const std::string& query) {
  pqxx::nontransaction look{connection};
  return look.exec1(query)[0].as<std::int64_t>();
}

void create_ledger(pqxx::connection_base& connection) {
  pqxx::nontransaction{connection}.exec(
      "CREATE TABLE ledger (number bigint, task bigint, version bigint, worker text);"
      "CREATE TABLE claims (task bigint PRIMARY KEY, version bigint NOT NULL, "
      "                     done boolean NOT NULL DEFAULT false) WITH (fillfactor = 50);"
      "CREATE TABLE refusals (task bigint)");
}

std::string check_ledger(pqxx::connection_base& connection, const LedgerTotals& totals) {
  Findings findings;
  const auto number = [&](const std::string& query) { return number_of(connection, query); };
  findings.expect(number("SELECT count(*) FROM leasehold.tasks"), 0,
                  "tasks are pending or leased at the end");
  findings.expect(
      number("SELECT count(*) FROM leasehold.finished_tasks WHERE state <> 'completed'"), 0,
      "tasks are dead or cancelled");
  findings.expect(number("SELECT count(*) FROM leasehold.finished_tasks"), totals.tasks,
                  "tasks have ended");
  findings.expect(number("SELECT count(DISTINCT unique_key) FROM leasehold.finished_tasks"),
                  totals.tasks, "different tasks have ended");
  findings.expect(number("SELECT count(*) FROM ledger"), totals.tasks, "effects");
  findings.expect(number("SELECT count(DISTINCT number) FROM ledger"), totals.tasks,
                  "tasks with an effect");
  findings.expect_at_most(
      number("SELECT coalesce(sum(crash_count), 0) FROM leasehold.finished_tasks"),
      totals.most_crashes, "crashes were counted");
  explain_wrong_numbers(connection, totals.tasks, findings);
  return findings.text();
}

}  // namespace leasehold::testing
