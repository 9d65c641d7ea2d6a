#include "leasehold/runner_id.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <regex>
#include <system_error>

#include "leasehold/errors.hpp"
#include "support/quote.hpp"
#include "support/random.hpp"

namespace leasehold::inline v0 {
namespace {

std::string new_id() {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  return "runner_" + std::to_string(ms.count()) + "_" + random_hex(4) + "_" +
         std::to_string(getpid());
}

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& why) {
  throw InvalidArgument("runner id file " + in_quotes(file.string()) + ": " + why);
}

std::string last_system_error() { return std::generic_category().message(errno); }

/// The id in the file. It is empty if the file is new, or if its writer crashed before it wrote.
std::string read_id(int fd, const std::filesystem::path& file) {
  char buffer[128];
  const ssize_t size = pread(fd, buffer, sizeof buffer, 0);
  if (size < 0) refuse(file, last_system_error());
  std::string id(buffer, static_cast<std::size_t>(size));
  while (!id.empty() && (id.back() == '\n' || id.back() == '\r')) id.pop_back();
  // The lengths are bounded: a longer text, cut by the buffer, must not match.
  static const std::regex format("runner_[0-9]{1,20}_[0-9a-f]{8}_[0-9]{1,20}");
  if (!id.empty() && !std::regex_match(id, format)) {
    refuse(file,
           "holds " + in_quotes(id) + ", expected runner_{ms}_{8 hex}_{pid} or an empty file");
  }
  return id;
}

void write_id(int fd, const std::string& id, const std::filesystem::path& file) {
  const std::string line = id + "\n";
  if (pwrite(fd, line.data(), line.size(), 0) != static_cast<ssize_t>(line.size()) ||
      fsync(fd) != 0) {
    refuse(file, last_system_error());
  }
}

}  // namespace

RunnerId::State::State(std::string text, int locked_file)
    : id(std::move(text)), incarnation(random_hex(8)), lock_fd(locked_file) {}

RunnerId::State::~State() {
  if (lock_fd >= 0) close(lock_fd);
}

const RunnerId& RunnerId::of_this_process() {
  static const RunnerId id = generate();
  return id;
}

RunnerId RunnerId::generate() { return RunnerId{std::make_shared<const State>(new_id(), -1)}; }

RunnerId RunnerId::from_file(const std::filesystem::path& file) {
  const int fd = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) refuse(file, last_system_error());
  // From here on the state closes the file, also when something throws.
  auto state = std::make_shared<State>("", fd);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return generate();
    refuse(file, last_system_error());
  }
  state->id = read_id(fd, file);
  if (state->id.empty()) {
    state->id = new_id();
    write_id(fd, state->id, file);
  }
  return RunnerId{std::move(state)};
}

}  // namespace leasehold::inline v0
