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
inline constexpr std::string_view stale_fencing_token = "LH001";  // ours, from fence()
}  // namespace sqlstate

/// Says what an error means for the caller, and quotes the server's own message.
SqlRefused explain(std::string_view sqlstate, std::string_view message, const std::string& where);

/// Throws what a failed attempt to connect means. libpq gives only a message then, and no code.
[[noreturn]] void raise_connect_failure(std::string_view message, const std::string& where);

}  // namespace leasehold::inline v0::postgres
