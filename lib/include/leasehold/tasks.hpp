#pragma once

/// Everything about tasks but leasehold/postgres.hpp, which needs libpqxx.
#include "leasehold/errors.hpp"
#include "leasehold/migrate.hpp"
#include "leasehold/queue_health.hpp"
#include "leasehold/recovery.hpp"
#include "leasehold/runner_id.hpp"
#include "leasehold/task.hpp"
#include "leasehold/task_lease.hpp"
#include "leasehold/task_queue.hpp"
#include "leasehold/task_stats.hpp"
#include "leasehold/worker.hpp"
#include "leasehold/worker_observer.hpp"
