-- Writes of lease holders. Each names id, version and lease id, and changes nothing if the lease is stale.

-- name: extend
-- Renews a lease.
--   ?1 id   ?2 version   ?3 lease id   ?4 deadline   ?5 expiry   ?6 now   ?7 whether the task has been started
UPDATE task_queue
SET lease_deadline = ?4, lease_expiry = ?5, updated_at = ?6, started = max(started, ?7)
WHERE id = ?1 AND version = ?2 AND lease_id = ?3

-- name: progress
-- Stores how far a task has come.
--   ?1 id   ?2 version   ?3 lease id   ?4 progress   ?5 now
UPDATE task_queue SET progress = ?4, updated_at = ?5
WHERE id = ?1 AND version = ?2 AND lease_id = ?3

-- name: complete
-- Completes a task and keeps it.
--   ?1 id   ?2 version   ?3 lease id   ?4 result or null   ?5 now
UPDATE task_queue
SET state = 'completed', version = version + 1, result = ?4, lease_deadline = NULL,
    lease_expiry = NULL, finished_at = ?5, updated_at = ?5
WHERE id = ?1 AND version = ?2 AND lease_id = ?3

-- name: complete_and_delete
-- Completes a task by deleting it.
--   ?1 id   ?2 version   ?3 lease id
DELETE FROM task_queue WHERE id = ?1 AND version = ?2 AND lease_id = ?3

-- name: complete_and_delete_many
-- Completes tasks of the same version and lease id by deleting them. For many tasks this costs two thirds of what
-- complete_and_delete costs for each.
--   ?1 their ids, as a JSON array   ?2 version   ?3 lease id
DELETE FROM task_queue
WHERE id IN (SELECT value FROM json_each(?1)) AND version = ?2 AND lease_id = ?3

-- name: complete_and_delete_range
-- The same for tasks whose ids follow each other. No list has to be parsed.
--   ?1 first id   ?2 last id   ?3 version   ?4 lease id
DELETE FROM task_queue WHERE id BETWEEN ?1 AND ?2 AND version = ?3 AND lease_id = ?4

-- name: fail
-- Ends a failed attempt: the task is pending again after the delay, or dead if no attempt is left; a dead task keeps
-- its run_at. The worker did not crash, so the count of crashes begins anew.
--   ?1 id   ?2 version   ?3 lease id   ?4 error   ?5 delay in µs, null for no retry   ?6 now
-- Reply: the new state, unless the lease was stale.
UPDATE task_queue
SET state = CASE WHEN ?5 IS NULL OR attempts >= max_attempts THEN 'dead' ELSE 'pending' END,
    finished_at = CASE WHEN ?5 IS NULL OR attempts >= max_attempts THEN ?6 END,
    leased_by = CASE WHEN ?5 IS NULL OR attempts >= max_attempts THEN leased_by END,
    run_at = CASE WHEN ?5 IS NULL OR attempts >= max_attempts THEN run_at ELSE ?6 + ?5 END, version = version + 1, crash_count = 0, suspect = 0,
    started = 0, lease_deadline = NULL, lease_expiry = NULL, last_error = ?4, updated_at = ?6
WHERE id = ?1 AND version = ?2 AND lease_id = ?3
RETURNING state

-- name: release
-- Gives a lease back as if the task had never been leased: the attempt does not count.
--   ?1 id   ?2 version   ?3 lease id   ?4 run_at, null to keep it   ?5 now
--   ?6 whether its worker gives it back in order, so that the count of crashes begins anew
UPDATE task_queue
SET state = 'pending', version = version + 1, attempts = attempts - 1, leased_by = NULL,
    started = 0, lease_deadline = NULL, lease_expiry = NULL, updated_at = ?5, run_at = coalesce(?4, run_at),
    crash_count = CASE WHEN ?6 THEN 0 ELSE crash_count END, suspect = CASE WHEN ?6 THEN 0 ELSE suspect END
WHERE id = ?1 AND version = ?2 AND lease_id = ?3
