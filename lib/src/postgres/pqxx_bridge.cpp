#include "postgres/pqxx_bridge.hpp"

namespace leasehold::inline v0::postgres {

#if PQXX_VERSION_MAJOR >= 7

#if PQXX_VERSION_MAJOR == 7 && PQXX_VERSION_MINOR < 7
#error "Leasehold needs libpqxx 6.4, or 7.7.5 and later: earlier ones adopt no connection of libpq"
#endif

std::unique_ptr<PqxxConnection> adopt(LibpqConnection made) {
  return std::make_unique<PqxxConnection>(PqxxConnection::seize_raw_connection(made.release()));
}

static pqxx::params values_of(const Params& params) {
  pqxx::params values;
  values.reserve(params.values().size());
  for (const auto& value : params.values()) {
    if (value) {
      values.append(*value);
    } else {
      values.append();
    }
  }
  return values;
}

pqxx::result execute(pqxx::transaction_base& transaction, const std::string& sql,
                     const Params& params) {
#if PQXX_VERSION_MAJOR > 7 || PQXX_VERSION_MINOR >= 9
  return transaction.exec(sql, values_of(params));
#else
  return transaction.exec_params(sql, values_of(params));
#endif
}

pqxx::result execute_prepared(pqxx::transaction_base& transaction, const std::string& name,
                              const Params& params) {
#if PQXX_VERSION_MAJOR > 7 || PQXX_VERSION_MINOR >= 9
  return transaction.exec(pqxx::prepped{name}, values_of(params));
#else
  return transaction.exec_prepared(name, values_of(params));
#endif
}

#else

PqxxConnection::PqxxConnection(LibpqConnection made)
    : connection_base(policy_), policy_(std::move(made)) {
  try {
    init();
  } catch (...) {
    close();  // nobody else does it if a constructor throws
    throw;
  }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  inhibit_reactivation(true);
#pragma GCC diagnostic pop
}

std::unique_ptr<PqxxConnection> adopt(LibpqConnection made) {
  return std::make_unique<PqxxConnection>(std::move(made));
}

static std::vector<const char*> values_of(const Params& params) {
  std::vector<const char*> values;
  values.reserve(params.values().size());
  for (const auto& value : params.values()) values.push_back(value ? value->c_str() : nullptr);
  return values;
}

pqxx::result execute(pqxx::transaction_base& transaction, const std::string& sql,
                     const Params& params) {
  const auto values = values_of(params);
  return transaction.exec_params(sql, pqxx::prepare::make_dynamic_params(values));
}

pqxx::result execute_prepared(pqxx::transaction_base& transaction, const std::string& name,
                              const Params& params) {
  const auto values = values_of(params);
  return transaction.exec_prepared(name, pqxx::prepare::make_dynamic_params(values));
}

#endif

std::string sqlstate_of(const std::exception& error) {
  // libpqxx 6.4 does not put the code into these; in 7 they are as good as any other.
  if (dynamic_cast<const pqxx::serialization_failure*>(&error)) return "40001";
  if (dynamic_cast<const pqxx::deadlock_detected*>(&error)) return "40P01";
  if (dynamic_cast<const pqxx::statement_completion_unknown*>(&error)) return "40003";
  if (dynamic_cast<const pqxx::transaction_rollback*>(&error)) return "40000";
  if (dynamic_cast<const pqxx::insufficient_privilege*>(&error)) return "42501";
  if (const auto* sql = dynamic_cast<const pqxx::sql_error*>(&error)) return sql->sqlstate();
  return {};
}

}  // namespace leasehold::inline v0::postgres
