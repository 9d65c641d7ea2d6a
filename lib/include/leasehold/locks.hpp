#pragma once

/// Everything about locks.
#include "leasehold/errors.hpp"
#include "leasehold/lock.hpp"
#include "leasehold/lock_client.hpp"
#include "leasehold/lock_observer.hpp"
#include "leasehold/lock_set.hpp"
#include "leasehold/lock_stats.hpp"
#include "leasehold/mutex.hpp"
#include "leasehold/redis_link.hpp"
#include "leasehold/runner_id.hpp"
#include "leasehold/shared_lock.hpp"
#include "leasehold/shared_mutex.hpp"
