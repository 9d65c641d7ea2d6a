#include "postgres/cancel_request.hpp"

#include <libpq-fe.h>
#include <pthread.h>

#include <array>
#include <csignal>
#include <new>
#include <system_error>
#include <thread>

#include "support/thread_safety.hpp"

namespace leasehold::inline v0::postgres {

struct CancelRequest::State {
  explicit State(PGcancel* made) : cancel(made) {}
  ~State() { PQfreeCancel(cancel); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void finished() {
    const ThreadLock lock(mutex);
    under_way = false;
    done.notify_all();
  }

  PGcancel* const cancel;
  ThreadMutex mutex;
  ThreadCondition done;
  bool under_way LEASEHOLD_GUARDED_BY(mutex) = false;
};

CancelRequest::CancelRequest(pg_conn* connection) {
  PGcancel* cancel = PQgetCancel(connection);
  if (cancel == nullptr) throw std::bad_alloc();
  try {
    state_ = std::make_shared<State>(cancel);
  } catch (...) {
    PQfreeCancel(cancel);
    throw;
  }
}

void CancelRequest::send() noexcept {
  {
    const ThreadLock lock(state_->mutex);
    if (state_->under_way) return;
    state_->under_way = true;
  }
  // The application's handlers are not for this thread, which inherits the mask, and libpq would
  // let SIGPIPE through.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  try {
    std::thread([state = state_] {
      std::array<char, 256> message{};
      // Why it failed does not matter: the caller shuts the connection if no answer comes.
      PQcancel(state->cancel, message.data(), int(message.size()));
      state->finished();
    }).detach();
  } catch (const std::exception&) {
    state_->finished();  // no thread could be started
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

bool CancelRequest::wait_until_done(std::chrono::milliseconds longest) const {
  State& state = *state_;
  ThreadLock lock(state.mutex);
  return state.done.wait_for(
      lock, longest, [&state]() LEASEHOLD_REQUIRES(state.mutex) { return !state.under_way; });
}

}  // namespace leasehold::inline v0::postgres
