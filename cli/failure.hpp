#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "common/exit_code.hpp"

namespace leasehold::cli {

using common::ExitCode;

/// For --help and the manual; docs/cli.md says the same.
inline constexpr const char* exit_codes_text =
    R"(  0  success
  1  failed, or done only in part; or a check found a broken guarantee
  2  the command line, the configuration or the input is wrong; nothing was done
     (except for enqueue from a pipe: the lines before a bad one were added)
  3  there is no such task or lock
  4  the store could not be reached; nothing was done, so it is safe to retry
  5  the reply was lost; it may have happened, so check before you retry
A command of several steps can fail in the middle (enqueue --from, several tasks
or locks, tasks purge). The message then says what was done before.)";

/// The reason why a command fails, and what the user can do about it.
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

/// Any error as a Failure: with an exit code and a hint.
Failure as_failure(const std::exception& error);

/// The same for a command of several steps that failed after some of them. `done` describes those,
/// like "3 done before this".
Failure failure_in_the_middle(const std::exception& error, const std::string& done);

/// Writes it to standard error, as JSON or for people. `command` is what --help can be asked of.
ExitCode report(const Failure& failure, const std::string& command, bool json);

}  // namespace leasehold::cli
