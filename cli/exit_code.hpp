#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace leasehold::cli {

/// What `leasehold` says to the shell. docs/cli.md and --help tell the same: see exit_codes_text.
enum class ExitCode {
  done = 0,
  failed = 1,       ///< refused, done only in part, or a promise was found broken
  misused = 2,      ///< the command line, the configuration or the input is wrong
  not_found = 3,    ///< there is no such task or lock
  unreachable = 4,  ///< the store did not answer: it did not happen
  unknown = 5,      ///< the answer was lost: it may have happened
};

inline constexpr const char* exit_codes_text =
    R"(  0  it did what was asked
  1  it could not, or only in part; or a check found something wrong
  2  the command line, the configuration or the input is wrong; nothing was done
     (enqueue --from a pipe: the lines before a bad one were added)
  3  there is no such task or lock
  4  the store could not be reached; nothing was done, and trying again is safe
  5  the answer was lost: it may have happened, so look before trying again
Commands of several steps can fail in the middle (enqueue --from, several tasks
or locks, tasks purge): then the message says what was done before.)";

/// Why a command ends, and what the user can do about it.
class Failure : public std::runtime_error {
 public:
  Failure(ExitCode code, const std::string& what, std::string hint = {})
      : std::runtime_error(what), code_(code), hint_(std::move(hint)) {}

  ExitCode code() const noexcept { return code_; }
  const std::string& hint() const noexcept { return hint_; }

 private:
  ExitCode code_;
  std::string hint_;
};

}  // namespace leasehold::cli
