#pragma once

namespace leasehold::common {

/// What a program tells the shell. `leaseholdd` uses the first three, `leasehold` all of them.
enum class ExitCode {
  done = 0,
  failed = 1,       ///< it could not do what was asked, or only in part; or a check failed
  misused = 2,      ///< the command line, the configuration or the input is wrong
  not_found = 3,    ///< there is no such task or lock
  unreachable = 4,  ///< the store did not answer, and nothing happened
  unknown = 5,      ///< the answer was lost, and it may have happened
};

}  // namespace leasehold::common
