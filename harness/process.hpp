#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "file_descriptor.hpp"

namespace leasehold::harness {

/// The user a child runs as; only root can change it.
struct RunAs {
  uid_t uid = 0;
  gid_t gid = 0;
};

/// Where a child's output goes.
struct Output {
  enum class To { pipe, file, inherit, discard, standard_output };

  static Output pipe() { return {To::pipe, {}}; }        ///< to read_line(); standard output only
  static Output inherit() { return {To::inherit, {}}; }  ///< where ours goes
  static Output discard() { return {To::discard, {}}; }
  static Output file(std::filesystem::path path) {
    return {To::file, std::move(path)};
  }  ///< appends
  static Output standard_output() {
    return {To::standard_output, {}};
  }  ///< with the child's stdout

  To to = To::pipe;
  std::filesystem::path path;
};

struct ProcessOptions {
  std::vector<std::string> argv;           ///< the program (searched in PATH) and its arguments
  std::map<std::string, std::string> env;  ///< added to our own environment
  std::filesystem::path working_dir;       ///< empty: ours
  std::optional<RunAs> run_as;             ///< empty: ourselves
  Output out = Output::pipe();
  Output err = Output::inherit();
};

/// How a child ended.
struct ExitStatus {
  int code = 0;    ///< its exit code, when no signal ended it
  int signal = 0;  ///< the signal that ended it, or 0

  bool success() const { return code == 0 && signal == 0; }
  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
};

/// A child process. It is killed and reaped by the destructor, and killed by the kernel when this
/// process ends in whatever way, so that no test leaves a server behind. Used from one thread at a
/// time; which thread does not matter.
class Process {
 public:
  /// Starts the program; throws when it cannot be started, with the reason.
  explicit Process(ProcessOptions options);
  /// The same with only a program and its arguments.
  explicit Process(std::vector<std::string> argv);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  /// False once the end has been seen, by this call or by wait().
  bool running();

  /// Sends a signal; nothing happens when the child has ended.
  void kill(int signal = SIGKILL);
  /// Stops the child with SIGSTOP. On return none of its threads runs.
  void pause();
  /// Continues after pause().
  void resume();

  /// Waits for the end. Empty when the child still runs after `timeout`.
  std::optional<ExitStatus> wait(std::chrono::milliseconds timeout);

  /// The next line of the child's standard output, without its newline. Empty when none came in
  /// time or the output has ended.
  std::optional<std::string> read_line(std::chrono::milliseconds timeout = std::chrono::seconds{
                                           10});
  /// Everything the child still writes until it closes its output or `timeout` has passed.
  std::string read_rest(std::chrono::milliseconds timeout = std::chrono::seconds{10});

  /// Writes a line to the child's standard input; false when the child does not read any more.
  bool write_line(const std::string& line);
  /// The child reads end of file.
  void close_input();

 private:
  enum class Read { more, end, timeout };
  Read read_some(std::chrono::steady_clock::time_point deadline);

  pid_t pid_ = -1;
  bool paused_ = false;
  std::optional<ExitStatus> status_;
  FileDescriptor input_;
  FileDescriptor output_;
  std::string unread_;
};

/// The result of a program that was run to its end.
struct Finished {
  ExitStatus status;
  std::string output;  ///< of both streams
};

/// Runs a program to its end; kills it and throws when it takes longer than `timeout`.
Finished run(ProcessOptions options, std::chrono::milliseconds timeout = std::chrono::seconds{180});

/// True while a process exists that has not ended; a zombie has.
bool is_alive(pid_t pid);

/// Our numbers for a user that servers can run as when we are root, which some refuse; empty when
/// we are not root. `postgres` when there is one, else `nobody`.
std::optional<RunAs> unprivileged_user();

}  // namespace leasehold::harness
