#pragma once

#include <sys/types.h>

#include <ctime>
#include <stdexcept>
#include <string>

namespace leasehold::bench {

/// The processor time that a process has used, in user and kernel mode, in seconds.
inline double cpu_seconds(pid_t process) {
  clockid_t clock{};
  timespec used{};
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &used) != 0) {
    throw std::runtime_error("no processor time for process " + std::to_string(process));
  }
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

}  // namespace leasehold::bench
