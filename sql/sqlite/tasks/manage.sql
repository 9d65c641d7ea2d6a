-- What operators do to tasks.

-- name: update
-- Changes a task that nobody has leased, if it is still at the expected version.
--   ?1 id   ?2 expected version   ?3 payload   ?4 priority   ?5 run_at   ?6 progress; null: as is
--   ?7 now
-- Reply: the new version if it was changed.
UPDATE task_queue
SET payload = coalesce(?3, payload), priority = coalesce(?4, priority), run_at = coalesce(?5, run_at),
    progress = coalesce(?6, progress), version = version + 1, updated_at = ?7
WHERE id = ?1 AND version = ?2 AND state <> 'leased'
RETURNING version

-- name: cancel
-- Cancels a living task. Its worker's lease is stale from then on.
--   ?1 id   ?2 now
UPDATE task_queue
SET state = 'cancelled', version = version + 1, lease_deadline = NULL, lease_expiry = NULL,
    finished_at = ?2, updated_at = ?2
WHERE id = ?1 AND state IN ('pending', 'leased')

-- name: retry
-- Gives a dead or cancelled task all its attempts again, from now.
--   ?1 id   ?2 now
-- Changes nothing (OR IGNORE) if a living task has its unique key.
UPDATE OR IGNORE task_queue
SET state = 'pending', version = version + 1, attempts = 0, crash_count = 0, run_at = ?2,
    leased_by = NULL, finished_at = NULL, updated_at = ?2
WHERE id = ?1 AND state IN ('dead', 'cancelled')

-- name: finished_type
-- The next type that has tasks which finished in a state: that is the order of the index task_finished.
--   ?1 state   ?2 only types behind this one
-- Reply: the type, or null.
SELECT min(type) FROM task_queue WHERE finished_at IS NOT NULL AND state = ?1 AND type > ?2

-- name: remove_finished
-- Deletes tasks of a type that finished in a state before a time.
--   ?1 state   ?2 type   ?3 time   ?4 at most so many
DELETE FROM task_queue
WHERE id IN (SELECT id FROM task_queue INDEXED BY task_finished
             WHERE finished_at IS NOT NULL AND state = ?1 AND type = ?2 AND finished_at < ?3
             ORDER BY finished_at
             LIMIT ?4)
