#include "recovery_thread.hpp"

#include "leasehold/errors.hpp"
#include "leasehold/recovery.hpp"
#include "support/sleep.hpp"

namespace leasehold::cli {

using namespace std::chrono_literals;

RecoveryThread::RecoveryThread(const Stores& stores, std::uint64_t tasks)
    : queue_(stores.tasks()), tasks_(tasks), thread_([this](const std::stop_token& stop) {
        while (sleep_for(200ms, stop)) recover_and_count();
      }) {}

void RecoveryThread::stop() {
  thread_.request_stop();
  thread_.join();
  recover_and_count();
}

std::string RecoveryThread::error() const {
  const ThreadLock guard(mutex_);
  return error_;
}

void RecoveryThread::recover_and_count() {
  try {
    // No limit of crashes: the tasks are not to blame when the demo kills their workers.
    recovered_ += Recovery{queue_, {.max_crashes = 1'000'000}}.run_once().tasks.size();
    std::uint64_t completed = 0;
    for (const TaskCount& count : queue_.counts(tasks_ + 1)) {
      if (count.state == TaskState::completed) completed += count.number;
    }
    completed_ = completed;
  } catch (const Error& error) {  // perhaps a frozen worker is in the way; the next try is soon
    const ThreadLock guard(mutex_);
    error_ = error.what();
  }
}

}  // namespace leasehold::cli
