-- Leases a pending task.
--   ?1 id   ?2 worker   ?3 deadline   ?4 expiry   ?5 now
-- Reply: what of it is not known yet, in the order in which Claim in lib/src/sqlite/sqlite_task_store.cpp
-- reads it.
UPDATE task_queue
SET state = 'leased', version = version + 1, attempts = attempts + 1, leased_by = ?2,
    lease_deadline = ?3, lease_expiry = ?4, updated_at = ?5
WHERE id = ?1
RETURNING version, payload, progress, attempts, max_attempts, crash_count
