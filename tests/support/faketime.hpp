#pragma once

#include <string>
#include <vector>

namespace leasehold::testing {

/// The command line of a program whose clock is off by so much ("+3600s"). faketime refuses to
/// start if a process of the same number that was killed left its semaphore: so that is removed
/// first.
inline std::vector<std::string> with_clock_off(const std::string& offset,
                                               const std::vector<std::string>& program) {
  std::vector<std::string> argv{
      "sh", "-c",
      "rm -f /dev/shm/sem.faketime_sem_$$ /dev/shm/faketime_shm_$$; exec faketime -f \"$@\"", "sh",
      offset};
  argv.insert(argv.end(), program.begin(), program.end());
  return argv;
}

}  // namespace leasehold::testing
