#pragma once

/// Everything about tasks except for the caller's own transactions: leasehold/postgres.hpp, which
/// needs libpqxx, and leasehold/sqlite.hpp.
#include "leasehold/errors.hpp"
#include "leasehold/migrate.hpp"
#include "leasehold/postgres_options.hpp"
#include "leasehold/queue_health.hpp"
#include "leasehold/recovery.hpp"
#include "leasehold/runner_id.hpp"
#include "leasehold/sqlite_options.hpp"
#include "leasehold/task.hpp"
#include "leasehold/task_attempt.hpp"
#include "leasehold/task_lease.hpp"
#include "leasehold/task_queue.hpp"
#include "leasehold/task_record.hpp"
#include "leasehold/task_stats.hpp"
#include "leasehold/worker.hpp"
#include "leasehold/worker_observer.hpp"
#include "leasehold/worker_stats.hpp"
