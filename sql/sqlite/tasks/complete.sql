-- Completes a task and keeps it.
--   ?1 id   ?2 version   ?3 result or null   ?4 now
UPDATE task_queue
SET state = 'completed', version = version + 1, result = ?3, lease_deadline = NULL,
    lease_expiry = NULL, finished_at = ?4, updated_at = ?4
WHERE id = ?1 AND version = ?2
