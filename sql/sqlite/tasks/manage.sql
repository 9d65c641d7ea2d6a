-- What operators do with tasks.

-- name: update
-- Changes a task if it is not leased and still has the expected version.
--   ?1 id   ?2 expected version   ?3 payload   ?4 priority   ?5 run_at   ?6 progress; null for no change
--   ?7 now
-- Reply: the new version, if the task was changed.
UPDATE task_queue
SET payload = coalesce(?3, payload), priority = coalesce(?4, priority), run_at = coalesce(?5, run_at),
    progress = coalesce(?6, progress), version = version + 1, updated_at = ?7
WHERE id = ?1 AND version = ?2 AND state <> 'leased'
RETURNING version

-- name: cancel
-- Cancels a pending or leased task. The lease of its worker is stale from then on.
--   ?1 id   ?2 now
UPDATE task_queue
SET state = 'cancelled', version = version + 1, lease_deadline = NULL, lease_expiry = NULL,
    finished_at = ?2, updated_at = ?2
WHERE id = ?1 AND state IN ('pending', 'leased')

-- name: retry
-- Makes a dead or cancelled task pending again, due now, with all its attempts.
--   ?1 id   ?2 now
-- Changes nothing (OR IGNORE) if a pending or leased task has its unique key.
UPDATE OR IGNORE task_queue
SET state = 'pending', version = version + 1, attempts = 0, crash_count = 0, suspect = 0,
    run_at = ?2, leased_by = NULL, finished_at = NULL, updated_at = ?2
WHERE id = ?1 AND state IN ('dead', 'cancelled')

-- name: finished_type
-- The next type with tasks that finished in a state, in the order of the index task_finished.
--   ?1 state   ?2 only types after this one
-- Reply: the type, or null.
SELECT min(type) FROM task_queue WHERE finished_at IS NOT NULL AND state = ?1 AND type > ?2

-- name: remove_finished
-- Deletes tasks of a type that finished in a state before a time.
--   ?1 state   ?2 type   ?3 time   ?4 limit
DELETE FROM task_queue
WHERE id IN (SELECT id FROM task_queue INDEXED BY task_finished
             WHERE finished_at IS NOT NULL AND state = ?1 AND type = ?2 AND finished_at < ?3
             ORDER BY finished_at
             LIMIT ?4)
