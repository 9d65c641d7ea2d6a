-- A failed attempt: pending again after the delay, or dead if no attempt is left.
--   ?1 id   ?2 version   ?3 error   ?4 delay in µs, null for never again   ?5 now
-- Reply: the new state if the lease was still the caller's.
UPDATE task_queue
SET state = CASE WHEN ?4 IS NULL OR attempts >= max_attempts THEN 'dead' ELSE 'pending' END,
    finished_at = CASE WHEN ?4 IS NULL OR attempts >= max_attempts THEN ?5 END,
    run_at = ?5 + coalesce(?4, 0), version = version + 1, leased_by = NULL, lease_deadline = NULL,
    lease_expiry = NULL, last_error = ?3, updated_at = ?5
WHERE id = ?1 AND version = ?2
RETURNING state
