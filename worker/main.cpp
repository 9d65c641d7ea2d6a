// leaseholdd, the recovery daemon: see leaseholdd --help.
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "command_line.hpp"
#include "common/exit_code.hpp"
#include "common/signals.hpp"
#include "configuration.hpp"
#include "daemon.hpp"
#include "leasehold/errors.hpp"
#include "leasehold/version.hpp"
#include "support/log_event.hpp"

namespace leasehold::worker {
namespace {

using common::ExitCode;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

ExitCode run_once(const common::Config& config, const Log& log) {
  std::atomic<bool> all_worked{true};
  {
    std::vector<std::jthread> threads;
    for (const common::QueueConfig& queue : config.queues) {
      threads.emplace_back([&] {
        if (!run_one_round(queue, log.for_queue(queue.name))) all_worked = false;
      });
    }
  }
  return all_worked ? ExitCode::done : ExitCode::failed;
}

void reload(Daemon& daemon, const CommandLine& command_line, const common::Environment& environment,
            const Log& log) {
  try {
    daemon.reload(load_config(command_line, environment).config);
    log_info(*log, "configuration reloaded",
             {{"listen", daemon.address()}, {"queues", daemon.config().queues.size()}});
    daemon.log_settings();
  } catch (const std::exception& error) {
    daemon.reload_refused();
    log_error(*log, "configuration refused, the old one stays", {{"error", error.what()}});
  }
}

/// Waits for the rounds under way, up to shutdown-timeout. Returns whether they have ended.
bool stop(Daemon& daemon, const common::Signals& signals, const Log& log) {
  const auto deadline = steady_clock::now() + daemon.config().shutdown_timeout;
  daemon.request_stop();
  while (!daemon.finished()) {
    const int signal = signals.wait(milliseconds{10});
    const bool again = signal != 0 && signal != SIGHUP;  // a reload makes no sense any more
    if (!again && steady_clock::now() < deadline) continue;
    // Nothing is left half done: each statement is a transaction.
    log_warn(*log, "stopped before the rounds under way had ended",
             {{"reason", again ? "second_signal" : "shutdown_timeout"}});
    return false;
  }
  log_info(*log, "stopped");
  return true;
}

ExitCode run(const CommandLine& command_line, const common::Environment& environment,
             const common::Config& config, Log& log, const common::Signals& signals) {
  Daemon daemon(config, log);
  log_info(
      *log, "leaseholdd ready",
      {{"version", version()}, {"listen", daemon.address()}, {"queues", config.queues.size()}});
  daemon.log_settings();
  while (true) {
    const int signal = signals.wait();
    if (signal == SIGHUP) {
      reload(daemon, command_line, environment, log);
      continue;
    }
    log_info(*log, "stopping", {{"signal", signal == SIGTERM ? "SIGTERM" : "SIGINT"}});
    // _Exit, because the destructors would wait for a server that hangs.
    if (!stop(daemon, signals, log)) std::_Exit(static_cast<int>(ExitCode::done));
    return ExitCode::done;
  }
}

ExitCode main_program(int argc, char** argv) {
  const common::Environment environment = common::our_environment();
  try {
    const CommandLine command_line = parse_command_line(argc, argv, environment);
    if (command_line.action == CommandLine::Action::print) {
      std::cout << command_line.text;
      return ExitCode::done;
    }
    const LoadedConfig loaded = load_config(command_line, environment);
    if (command_line.action == CommandLine::Action::check_config) {
      std::cout << loaded.description;
      return ExitCode::done;
    }
    ::setenv("PGAPPNAME", "leaseholdd", 0);  // shown in pg_stat_activity
    Log log(loaded.config.log_format, loaded.config.log_level);
    for (const std::string& name : loaded.unknown_variables) {
      log_warn(*log, "environment variable ignored", {{"variable", name}});
    }
    if (command_line.action == CommandLine::Action::once) return run_once(loaded.config, log);
    const common::Signals signals;
    try {
      return run(command_line, environment, loaded.config, log, signals);
    } catch (const std::exception& error) {
      log_error(*log, "leaseholdd failed", {{"error", error.what()}});
      return ExitCode::failed;
    }
  } catch (const InvalidArgument& error) {
    std::fprintf(stderr, "leaseholdd: %s\nTry leaseholdd --help\n", error.what());
    return ExitCode::misused;
  }
}

}  // namespace
}  // namespace leasehold::worker

int main(int argc, char** argv) {
  return static_cast<int>(leasehold::worker::main_program(argc, argv));
}
