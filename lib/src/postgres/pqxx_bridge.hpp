#pragma once

#include <memory>
#include <pqxx/pqxx>
#include <pqxx/version>
#include <string>

#include "postgres/open_connection.hpp"
#include "postgres/params.hpp"

// The only place that knows how libpqxx 6.4 and 7 differ.
namespace leasehold::inline v0::postgres {

#if PQXX_VERSION_MAJOR >= 7
using PqxxConnection = pqxx::connection;
#else
/// A connection that libpq has made already. It never reconnects by itself; libpqxx 7 never does.
class PqxxConnection : public pqxx::connection_base {
 public:
  explicit PqxxConnection(LibpqConnection made);
  ~PqxxConnection() noexcept { close(); }

 private:
  struct Policy : pqxx::connectionpolicy {
    explicit Policy(LibpqConnection given) : connectionpolicy(""), made(std::move(given)) {}
    handle do_startconnect(handle original) override {
      return original ? original : made.release();
    }

    LibpqConnection made;
  };

  Policy policy_;
};
#endif

/// Lets libpqxx use and own a connection.
std::unique_ptr<PqxxConnection> adopt(LibpqConnection made);

/// Runs one statement with parameters.
pqxx::result execute(pqxx::transaction_base& transaction, const std::string& sql,
                     const Params& params);

/// Runs a statement that the connection has prepared.
pqxx::result execute_prepared(pqxx::transaction_base& transaction, const std::string& name,
                              const Params& params);

/// The SQLSTATE of an exception of libpqxx, or empty.
std::string sqlstate_of(const std::exception& error);

}  // namespace leasehold::inline v0::postgres
