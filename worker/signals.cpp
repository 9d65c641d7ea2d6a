#include "signals.hpp"

#include <ctime>

namespace leasehold::worker {

Signals::Signals() {
  ::sigemptyset(&set_);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&set_, signal);
  ::pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  // Who hangs up on us is told by the write's error.
  std::signal(SIGPIPE, SIG_IGN);
}

int Signals::wait() const {
  while (true) {
    const int signal = ::sigwaitinfo(&set_, nullptr);
    if (signal > 0) return signal;  // else: interrupted, by a debugger or SIGCONT
  }
}

int Signals::wait(std::chrono::milliseconds timeout) const {
  const timespec time{timeout.count() / 1000, timeout.count() % 1000 * 1'000'000};
  const int signal = ::sigtimedwait(&set_, nullptr, &time);
  return signal > 0 ? signal : 0;
}

}  // namespace leasehold::worker
