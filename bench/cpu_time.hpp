#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <sstream>
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

/// The same, with both apart. The sum is exact, the kernel knows the shares only to a few percent.
struct CpuTime {
  double user = 0;    ///< seconds
  double system = 0;  ///< seconds

  double total() const { return user + system; }

  CpuTime& operator+=(const CpuTime& other) {
    user += other.user;
    system += other.system;
    return *this;
  }
  friend CpuTime operator-(const CpuTime& a, const CpuTime& b) {
    return {a.user - b.user, a.system - b.system};
  }

  static CpuTime of(pid_t process) {
    std::ifstream in("/proc/" + std::to_string(process) + "/stat");
    std::string text;
    std::getline(in, text);
    const auto end_of_name = text.rfind(')');  // the name may contain anything
    if (end_of_name == std::string::npos) {
      throw std::runtime_error("no processor time for process " + std::to_string(process));
    }
    std::istringstream fields(text.substr(end_of_name + 1));
    std::string skipped;
    for (int i = 0; i < 11; ++i) fields >> skipped;
    double user = 0;  // in ticks
    double system = 0;
    fields >> user >> system;
    const double share = user + system > 0 ? user / (user + system) : 0.5;
    const double seconds = cpu_seconds(process);
    return {seconds * share, seconds * (1 - share)};
  }
};

}  // namespace leasehold::bench
