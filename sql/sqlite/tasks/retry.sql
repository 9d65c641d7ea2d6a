-- Gives a dead or cancelled task all its attempts again, from now.
--   ?1 id   ?2 now
-- Changes nothing (OR IGNORE) if a living task has its unique key.
UPDATE OR IGNORE task_queue
SET state = 'pending', version = version + 1, attempts = 0, crash_count = 0, run_at = ?2,
    leased_by = NULL, finished_at = NULL, updated_at = ?2
WHERE id = ?1 AND state IN ('dead', 'cancelled')
