#include "postgres_book.hpp"

#include <pqxx/pqxx>

#include "demo_sql.hpp"
#include "leasehold/postgres.hpp"

namespace leasehold::cli {
namespace {

class PostgresBook final : public Book {
 public:
  explicit PostgresBook(std::string uri) : uri_(std::move(uri)) {}

  void create(std::int64_t accounts) override {
    pqxx::work transaction{connection()};
    transaction.exec(std::string(demo_sql::create_postgres.text));
    for (std::int64_t account = 0; account < accounts; ++account) {
      transaction.exec_params(std::string(demo_sql::open_account.text), account);
    }
    transaction.commit();
  }

  std::int64_t balance(std::int64_t account, FencingToken token) override {
    pqxx::work transaction{connection()};
    fence(transaction, resource(account), token);
    const auto balance =
        transaction.exec_params(std::string(demo_sql::balance.text), account)[0][0];
    transaction.commit();
    return balance.as<std::int64_t>();
  }

  void book(Task& task, const Booking& booking) override {
    pqxx::work transaction{connection()};
    fence(transaction, resource(booking.account), booking.token);
    transaction.exec_params(std::string(demo_sql::set_balance.text), booking.account,
                            booking.balance);
    transaction.exec_params(std::string(demo_sql::add_booking.text), task.id().value,
                            booking.account, static_cast<std::int64_t>(booking.token.value));
    complete_in(transaction, task);
    transaction.commit();
  }

  void note(TaskLease& lease) override {
    pqxx::work transaction{connection()};
    transaction.exec_params(std::string(demo_sql::add_note.text), lease.id().value);
    complete_in(transaction, lease);
    transaction.commit();
  }

  Totals totals() override {
    pqxx::nontransaction transaction{connection()};
    const auto row = transaction.exec(std::string(demo_sql::totals.text))[0];
    return {row[0].as<std::uint64_t>(), row[1].as<std::uint64_t>(), row[2].as<std::uint64_t>(),
            row[3].as<std::int64_t>(), row[4].as<std::uint64_t>()};
  }

 private:
  /// The connection of this thread. A broken one is replaced.
  pqxx::connection& connection() const {
    thread_local std::unique_ptr<pqxx::connection> own;
    if (!own || !own->is_open()) own = std::make_unique<pqxx::connection>(uri_);
    return *own;
  }

  const std::string uri_;
};

}  // namespace

std::unique_ptr<Book> open_postgres_book(const std::string& uri) {
  return std::make_unique<PostgresBook>(uri);
}

}  // namespace leasehold::cli
