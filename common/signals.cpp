#include "common/signals.hpp"

#include <ctime>

namespace leasehold::common {

Signals::Signals() {
  ::sigemptyset(&set_);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&set_, signal);
  ::pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  // A closed connection shows up as an error of the write.
  std::signal(SIGPIPE, SIG_IGN);
}

int Signals::wait() const {
  while (true) {
    const int signal = ::sigwaitinfo(&set_, nullptr);
    if (signal > 0) return signal;  // otherwise a debugger or SIGCONT interrupted it
  }
}

int Signals::wait(std::chrono::milliseconds timeout) const {
  const timespec time{timeout.count() / 1000, timeout.count() % 1000 * 1'000'000};
  const int signal = ::sigtimedwait(&set_, nullptr, &time);
  return signal > 0 ? signal : 0;
}

}  // namespace leasehold::common
