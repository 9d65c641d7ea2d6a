-- Changes a task that nobody has leased, if it is still at the expected version.
--   ?1 id   ?2 expected version   ?3 payload   ?4 priority   ?5 run_at   ?6 progress; null: as is
--   ?7 now
-- Reply: the new version if it was changed.
UPDATE task_queue
SET payload = coalesce(?3, payload), priority = coalesce(?4, priority), run_at = coalesce(?5, run_at),
    progress = coalesce(?6, progress), version = version + 1, updated_at = ?7
WHERE id = ?1 AND version = ?2 AND state <> 'leased'
RETURNING version
