#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "leasehold/fencing_token.hpp"
#include "leasehold/recovery.hpp"
#include "leasehold/task_queue.hpp"
#include "leasehold/worker.hpp"

namespace leasehold::inline v0 {

// Each check throws InvalidArgument that says what is allowed and what was given.

void check_queue_options(const TaskQueueOptions& options);
void check_new_tasks(std::span<const NewTask> tasks, std::size_t largest_payload);
void check_lease_request(const LeaseRequest& request);
void check_lease_duration(std::chrono::milliseconds duration);
void check_delay(const char* what, std::chrono::milliseconds delay);
void check_backoff(const TaskBackoff& backoff);
/// JSON of at most `largest` bytes, nested at most 500 deep. Empty is not JSON.
void check_json(const char* what, std::string_view json, std::size_t largest);
void check_changes(const TaskChanges& changes, std::size_t largest_payload);
void check_filter(const TaskFilter& filter);
void check_removal(const Removal& removal);
void check_recovery_options(const RecoveryOptions& options);
void check_worker_options(const WorkerOptions& options);
void check_handler(std::string_view type, const HandlerOptions& options);
void check_resource(std::string_view resource);
/// The token as databases store it.
std::int64_t checked_token(FencingToken token);

/// The text of an error as it is stored: at most 4,096 bytes, with invalid UTF-8 replaced.
std::string as_kept_error(std::string_view error);

}  // namespace leasehold::inline v0
