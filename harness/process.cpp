#include "process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <functional>
#include <future>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include "spawn_guard.hpp"

namespace leasehold::harness {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

[[noreturn]] void throw_errno(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

// The kernel's "die with your parent" means the parent *thread*: all children are started by this
// one, which lives as long as the process.
class Spawner {
 public:
  static Spawner& instance() {
    // Never destroyed: its thread outlives static destructors.
    static auto* spawner = new Spawner;
    return *spawner;
  }

  int spawn(const std::function<int()>& call) {
    std::packaged_task<int()> task{call};
    auto result = task.get_future();
    {
      const std::scoped_lock hold{mutex_};
      tasks_.push_back(std::move(task));
    }
    wake_.notify_one();
    return result.get();
  }

 private:
  Spawner() {
    std::thread([this] {
      while (true) run_one();
    }).detach();
  }

  void run_one() {
    std::unique_lock hold{mutex_};
    wake_.wait(hold, [this] { return !tasks_.empty(); });
    auto task = std::move(tasks_.front());
    tasks_.pop_front();
    hold.unlock();
    task();
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::packaged_task<int()>> tasks_;
};

// Above the numbers that the child's descriptors get, so that setting up one never overwrites
// another.
FileDescriptor moved_up(int fd) {
  const FileDescriptor original{fd};
  const int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, 10);
  if (moved < 0) throw_errno(errno, "dup");
  return FileDescriptor{moved};
}

struct Pair {
  FileDescriptor ours;
  FileDescriptor childs;
};

Pair make_pipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) throw_errno(errno, "pipe");
  return {moved_up(fds[0]), moved_up(fds[1])};
}

// The child's input is a socket and not a pipe: writing to a dead child must not raise SIGPIPE.
Pair make_socket_pair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
    throw_errno(errno, "socketpair");
  return {moved_up(fds[0]), moved_up(fds[1])};
}

std::vector<std::string> environment_with(const std::map<std::string, std::string>& additions) {
  std::vector<std::string> result;
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    const std::string text{*entry};
    if (!additions.contains(text.substr(0, text.find('=')))) result.push_back(text);
  }
  for (const auto& [name, value] : additions) result.emplace_back(name).append("=").append(value);
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (auto& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// What posix_spawn shall do in the child before it starts the guard.
class SpawnSetup {
 public:
  SpawnSetup() {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawnattr_init(&attributes_);
    // A test may block or ignore signals; its children must not inherit that.
    sigset_t signals;
    ::sigemptyset(&signals);
    ::posix_spawnattr_setsigmask(&attributes_, &signals);
    ::sigfillset(&signals);
    ::sigdelset(&signals, SIGKILL);
    ::sigdelset(&signals, SIGSTOP);
    ::posix_spawnattr_setsigdefault(&attributes_, &signals);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnSetup() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;

  void connect(int ours, int childs) {
    ::posix_spawn_file_actions_adddup2(&actions_, ours, childs);
  }

  void direct(const Output& output, int childs, int pipe) {
    switch (output.to) {
      case Output::To::pipe:
        connect(pipe, childs);
        break;
      case Output::To::file:
        open(childs, output.path.c_str(), O_WRONLY | O_CREAT | O_APPEND);
        break;
      case Output::To::discard:
        open(childs, "/dev/null", O_WRONLY);
        break;
      case Output::To::standard_output:
        connect(STDOUT_FILENO, childs);
        break;
      case Output::To::inherit:
        break;
    }
  }

  int run(pid_t& pid, const char* program, char* const* argv, char* const* env) {
    return ::posix_spawn(&pid, program, &actions_, &attributes_, argv, env);
  }

 private:
  void open(int childs, const char* path, int flags) {
    ::posix_spawn_file_actions_addopen(&actions_, childs, path, flags, 0644);
  }

  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

// Empty when the program was started, else the errno of what failed.
std::optional<int> read_failure(int fd) {
  std::string text;
  char buffer[16];
  while (true) {
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.append(buffer, static_cast<std::size_t>(n));
  }
  if (text.empty()) return std::nullopt;
  return std::stoi(text);
}

ExitStatus to_exit_status(int raw) {
  if (WIFSIGNALED(raw)) return {.code = 0, .signal = WTERMSIG(raw)};
  return {.code = WEXITSTATUS(raw), .signal = 0};
}

}  // namespace

Process::Process(std::vector<std::string> argv)
    : Process(ProcessOptions{.argv = std::move(argv)}) {}

Process::Process(ProcessOptions options) {
  if (options.argv.empty()) throw std::invalid_argument("a process needs a program");
  if (options.out.to == Output::To::standard_output || options.err.to == Output::To::pipe) {
    throw std::invalid_argument(
        "only standard output can be a pipe; use Output::standard_output()");
  }

  Pair input = make_socket_pair();
  Pair output = make_pipe();
  Pair status = make_pipe();
  SpawnSetup setup;
  setup.connect(input.childs.get(), STDIN_FILENO);
  setup.direct(options.out, STDOUT_FILENO, output.childs.get());
  setup.direct(options.err, STDERR_FILENO, -1);
  setup.connect(status.childs.get(), 3);

  std::vector<std::string> words{spawn_guard_name, std::to_string(::getpid()),
                                 options.run_as ? std::to_string(options.run_as->uid) : "-1",
                                 options.run_as ? std::to_string(options.run_as->gid) : "-1",
                                 options.working_dir.string()};
  words.insert(words.end(), options.argv.begin(), options.argv.end());
  std::vector<std::string> environment = environment_with(options.env);
  const auto argv = pointers(words);
  const auto env = pointers(environment);

  const int error = Spawner::instance().spawn(
      [&] { return setup.run(pid_, LEASEHOLD_SPAWN_GUARD, argv.data(), env.data()); });
  if (error != 0) throw_errno(error, std::string{"cannot run "} + LEASEHOLD_SPAWN_GUARD);

  input.childs.reset();
  output.childs.reset();
  status.childs.reset();
  if (const auto failure = read_failure(status.ours.get())) {
    ::waitpid(pid_, nullptr, 0);
    throw_errno(*failure, "cannot run " + options.argv.front());
  }
  input_ = std::move(input.ours);
  if (options.out.to == Output::To::pipe) output_ = std::move(output.ours);
}

Process::~Process() {
  kill(SIGKILL);
  if (!status_) ::waitpid(pid_, nullptr, 0);
}

bool Process::running() { return !wait(milliseconds{0}).has_value(); }

void Process::kill(int signal) {
  // Not after the end was seen: another process may have this pid by now.
  if (!status_) ::kill(pid_, signal);
}

void Process::pause() {
  if (status_) throw std::runtime_error("cannot pause a process that has ended");
  if (std::exchange(paused_, true)) return;  // a second stop would never be reported
  kill(SIGSTOP);
  int raw = 0;
  while (::waitpid(pid_, &raw, WUNTRACED) < 0) {
    if (errno != EINTR) throw_errno(errno, "waitpid");
  }
  if (WIFSTOPPED(raw)) return;
  status_ = to_exit_status(raw);
  throw std::runtime_error("the process ended before it could be paused");
}

void Process::resume() {
  paused_ = false;
  kill(SIGCONT);
}

std::optional<ExitStatus> Process::wait(milliseconds timeout) {
  const auto deadline = steady_clock::now() + timeout;
  while (!status_) {
    const bool last = steady_clock::now() >= deadline;
    int raw = 0;
    const pid_t ended = ::waitpid(pid_, &raw, WNOHANG);
    if (ended == pid_) {
      status_ = to_exit_status(raw);
    } else if (ended < 0 && errno != EINTR) {
      throw_errno(errno, "waitpid");
    } else if (last) {
      break;
    } else {
      std::this_thread::sleep_for(milliseconds{1});
    }
  }
  return status_;
}

Process::Read Process::read_some(steady_clock::time_point deadline) {
  if (!output_) return Read::end;
  const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
  pollfd waited{output_.get(), POLLIN, 0};
  const int ready =
      ::poll(&waited, 1, static_cast<int>(std::max<milliseconds::rep>(0, left.count())));
  if (ready == 0) return Read::timeout;
  char buffer[4096];
  const ssize_t n = ready < 0 ? -1 : ::read(output_.get(), buffer, sizeof buffer);
  if (n < 0 && errno != EINTR) throw_errno(errno, "reading from a child");
  if (n == 0) {
    output_.reset();
    return Read::end;
  }
  if (n > 0) unread_.append(buffer, static_cast<std::size_t>(n));
  return Read::more;
}

std::optional<std::string> Process::read_line(milliseconds timeout) {
  const auto deadline = steady_clock::now() + timeout;
  while (true) {
    if (const auto end = unread_.find('\n'); end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    if (read_some(deadline) != Read::more) return std::nullopt;
  }
}

std::string Process::read_rest(milliseconds timeout) {
  const auto deadline = steady_clock::now() + timeout;
  while (read_some(deadline) == Read::more) {
  }
  return std::exchange(unread_, {});
}

bool Process::write_line(const std::string& line) {
  const std::string text = line + '\n';
  std::size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t n = ::send(input_.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    sent += static_cast<std::size_t>(n);
  }
  return true;
}

void Process::close_input() { input_.reset(); }

Finished run(ProcessOptions options, milliseconds timeout) {
  const std::string program = options.argv.empty() ? "" : options.argv.front();
  const auto deadline = steady_clock::now() + timeout;
  options.out = Output::pipe();
  options.err = Output::standard_output();
  Process process{std::move(options)};
  process.close_input();
  std::string output = process.read_rest(timeout);
  const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
  const auto status = process.wait(std::max(left, milliseconds{0}));
  if (!status) throw std::runtime_error(program + " did not end in time; it wrote: " + output);
  return {*status, std::move(output)};
}

bool is_alive(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(stat, text)) return false;
  // "pid (name) state …", and the name may contain anything
  const auto name_end = text.rfind(')');
  const char state = name_end + 2 < text.size() ? text[name_end + 2] : 'X';
  return state != 'Z' && state != 'X';
}

std::optional<RunAs> unprivileged_user() {
  if (::geteuid() != 0) return std::nullopt;
  for (const char* name : {"postgres", "nobody"}) {
    if (const passwd* user = ::getpwnam(name)) return RunAs{user->pw_uid, user->pw_gid};
  }
  throw std::runtime_error("neither a user postgres nor a user nobody to run a server as");
}

}  // namespace leasehold::harness
