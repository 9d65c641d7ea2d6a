#include "sqlite/locks/process_identity.hpp"

#include <unistd.h>
#include <csignal>

#include <array>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

namespace leasehold::inline v0::sqlite {
namespace {

/// The same pid is another process in another container.
std::string pid_namespace() {
  std::array<char, 64> target{};
  const auto size = readlink("/proc/self/ns/pid", target.data(), target.size());
  return size > 0 ? std::string(target.data(), static_cast<std::size_t>(size)) : "unknown";
}

struct ProcessStatus {
  char state = 0;
  std::string started_at;  ///< in ticks since boot
};

std::optional<ProcessStatus> status_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto name_end = text.rfind(')');  // the name may contain anything
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream rest(text.substr(name_end + 1));
  ProcessStatus status;
  rest >> status.state;
  constexpr int fields_between = 18;
  for (int i = 0; i <= fields_between; ++i) rest >> status.started_at;
  return status;
}

std::string identity_of(const std::string& space, pid_t pid, const std::string& started_at) {
  return space + "/" + std::to_string(pid) + "/" + started_at;
}

}  // namespace

std::string process_identity() {
  const auto status = status_of(getpid());
  return identity_of(pid_namespace(), getpid(), status ? status->started_at : "unknown");
}

bool has_ended(std::string_view identity) {
  // Remembered per process: a child of fork() must not take its parent for itself.
  struct Self {
    pid_t pid = 0;
    std::string space;
    std::string identity;
  };
  thread_local Self self;
  if (self.pid != getpid()) self = {getpid(), pid_namespace(), process_identity()};
  const std::string& our_space = self.space;
  if (identity == self.identity) return false;
  const auto slash = identity.find('/');
  if (slash == std::string_view::npos || identity.substr(0, slash) != our_space) return false;
  pid_t pid = 0;
  std::from_chars(identity.data() + slash + 1, identity.data() + identity.size(), pid);
  if (pid <= 0) return false;
  if (kill(pid, 0) != 0 && errno == ESRCH) return true;
  const auto status = status_of(pid);
  if (!status) return false;
  const bool is_zombie = status->state == 'Z' || status->state == 'X';
  return is_zombie || identity_of(our_space, pid, status->started_at) != identity;
}

}  // namespace leasehold::inline v0::sqlite
