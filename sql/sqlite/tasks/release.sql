-- Gives a lease back as if it had never been: the attempt is not counted.
--   ?1 id   ?2 version   ?3 run_at, null to keep it   ?4 now
UPDATE task_queue
SET state = 'pending', version = version + 1, attempts = attempts - 1, leased_by = NULL,
    lease_deadline = NULL, lease_expiry = NULL, updated_at = ?4, run_at = coalesce(?3, run_at)
WHERE id = ?1 AND version = ?2
