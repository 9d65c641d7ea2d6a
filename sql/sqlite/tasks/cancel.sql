-- Cancels a living task. Its worker's lease is stale from then on.
--   ?1 id   ?2 now
UPDATE task_queue
SET state = 'cancelled', version = version + 1, lease_deadline = NULL, lease_expiry = NULL,
    finished_at = ?2, updated_at = ?2
WHERE id = ?1 AND state IN ('pending', 'leased')
