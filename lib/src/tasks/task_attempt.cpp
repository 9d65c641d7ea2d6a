#include "leasehold/task_attempt.hpp"

#include "tasks/task_store.hpp"

namespace leasehold::inline v0 {

TaskId TaskAttempt::id() const noexcept { return task_->key.id; }
TaskVersion TaskAttempt::version() const noexcept { return task_->key.version; }
const std::string& TaskAttempt::type() const noexcept { return task_->type; }
const std::string& TaskAttempt::payload() const noexcept { return task_->payload; }
int TaskAttempt::priority() const noexcept { return task_->priority; }
int TaskAttempt::attempt() const noexcept { return task_->attempts; }
int TaskAttempt::max_attempts() const noexcept { return task_->max_attempts; }
int TaskAttempt::crash_count() const noexcept { return task_->crash_count; }
const std::string& TaskAttempt::last_progress() const noexcept { return task_->progress; }

}  // namespace leasehold::inline v0
