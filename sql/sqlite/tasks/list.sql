-- A page of tasks in order of id.
--   ?1 type or null   ?2 state or null   ?3 worker or null   ?4 ids above this one   ?5 at most so many
-- Reply: as get.sql.
SELECT id, version, type, state, priority, payload, progress, result, run_at, leased_by, lease_expiry,
       attempts, max_attempts, crash_count, unique_key, last_error, created_at, updated_at, finished_at
FROM task_queue
WHERE (?1 IS NULL OR type = ?1) AND (?2 IS NULL OR state = ?2) AND (?3 IS NULL OR leased_by = ?3)
  AND id > ?4
ORDER BY id
LIMIT ?5
