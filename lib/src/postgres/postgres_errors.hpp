#pragma once

#include <string>
#include <string_view>

#include "leasehold/errors.hpp"

namespace leasehold::inline v0::postgres {

/// A refusal with its SQLSTATE.
class SqlRefused : public ServerRefused {
 public:
  SqlRefused(Reason reason, const std::string& what, std::string sqlstate)
      : ServerRefused(reason, what), sqlstate_(std::move(sqlstate)) {}

  const std::string& sqlstate() const noexcept { return sqlstate_; }

 private:
  std::string sqlstate_;
};

namespace sqlstate {
inline constexpr std::string_view unique_violation = "23505";
inline constexpr std::string_view lock_not_available = "55P03";
inline constexpr std::string_view read_only = "25006";
inline constexpr std::string_view cancelled = "57014";
inline constexpr std::string_view stale_fencing_token = "LH001";  // ours, from fence()
}  // namespace sqlstate

/// Says what an error means for the caller, and quotes the server's own message.
SqlRefused explain(std::string_view sqlstate, std::string_view message, const std::string& where);

/// What libpq says about a failed attempt to connect.
struct ConnectFailure {
  std::string sqlstate;  ///< empty if the server sent none
  std::string message;   ///< in the language of the server or of this process
  bool needs_password = false;
  bool read_only = false;  ///< the server is a standby, or accepts no writes
};

/// Throws what it means. The message does not say where: the caller adds that.
[[noreturn]] void raise_connect_failure(const ConnectFailure& failure);

/// Whether an error with this code leaves a connection that is of no use. Empty: no code was sent.
bool ends_the_connection(std::string_view sqlstate);

/// Throws what an error means that came after a statement was sent to `where`. `sqlstate` is empty
/// if the server did not send one. Without one, nobody knows what became of the statement: the
/// connection was lost, or memory ran out while the answer was read.
[[noreturn]] void raise_statement_failure(std::string_view sqlstate, std::string_view message,
                                          const std::string& where);

}  // namespace leasehold::inline v0::postgres
