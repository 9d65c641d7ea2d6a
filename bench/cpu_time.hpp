#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
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

/// The fields of /proc/PID/stat from the process' state on. Empty if there is no such process.
inline std::istringstream process_stat(pid_t process) {
  std::ifstream in("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(in, text);
  const auto end_of_name = text.rfind(')');  // the name may contain anything
  return std::istringstream(end_of_name == std::string::npos ? "" : text.substr(end_of_name + 1));
}

/// The processor time of a server and all its children, which have no children of their own, in
/// seconds. It includes children that have ended.
inline double cpu_seconds_with_children(pid_t server) {
  double seconds = cpu_seconds(server);
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const pid_t process = std::stoi(name);
    std::string state;
    pid_t parent = 0;
    if (!(process_stat(process) >> state >> parent) || parent != server) continue;
    try {
      seconds += cpu_seconds(process);
    } catch (const std::runtime_error&) {
      // It has just ended, and is counted below.
    }
  }
  auto fields = process_stat(server);
  std::string skipped;
  for (int i = 0; i < 13; ++i) fields >> skipped;
  double user = 0;  // of children that have ended, in ticks
  double system = 0;
  fields >> user >> system;
  return seconds + (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

/// User and kernel mode apart. The sum is exact, the kernel knows the shares only to a few percent.
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
    auto fields = process_stat(process);
    std::string skipped;
    for (int i = 0; i < 11; ++i) fields >> skipped;
    double user = 0;  // in ticks
    double system = 0;
    if (!(fields >> user >> system)) {
      throw std::runtime_error("no processor time for process " + std::to_string(process));
    }
    const double share = user + system > 0 ? user / (user + system) : 0.5;
    const double seconds = cpu_seconds(process);
    return {seconds * share, seconds * (1 - share)};
  }
};

}  // namespace leasehold::bench
