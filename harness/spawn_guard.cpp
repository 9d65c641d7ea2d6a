#include "spawn_guard.hpp"

#include <fcntl.h>
#include <grp.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace leasehold::harness {
namespace {

constexpr int kStatus = 3;

[[noreturn]] void fail() {
  ::dprintf(kStatus, "%d", errno);
  ::_exit(127);
}

}  // namespace

int run_spawn_guard(int argc, char** argv) {
  if (argc < 6) {
    std::fprintf(stderr, "spawn_guard: started by leasehold's own programs only\n");
    return 2;
  }
  const auto parent = static_cast<pid_t>(std::atol(argv[1]));
  const long uid = std::atol(argv[2]);
  const long gid = std::atol(argv[3]);
  const char* working_dir = argv[4];

  if (::fcntl(kStatus, F_SETFD, FD_CLOEXEC) != 0) fail();
  // Libraries open sockets without close-on-exec; a server that inherited one would keep a
  // connection alive that its test has closed.
  if (::close_range(kStatus + 1, ~0U, 0) != 0) fail();
  if (*working_dir != '\0' && ::chdir(working_dir) != 0) fail();
  if (gid >= 0) {
    const auto group = static_cast<gid_t>(gid);
    if (::setgroups(1, &group) != 0 || ::setgid(group) != 0) fail();
  }
  if (uid >= 0 && ::setuid(static_cast<uid_t>(uid)) != 0) fail();
  // After setuid, which clears it. A parent that died before this line is seen by the next one.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) fail();
  if (::getppid() != parent) ::_exit(127);
  ::execvp(argv[5], argv + 5);
  fail();
}

}  // namespace leasehold::harness
