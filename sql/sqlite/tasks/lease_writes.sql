-- Writes of lease holders. Each names id and version, and changes nothing if the lease is stale.

-- name: extend
-- Renews a lease.
--   ?1 id   ?2 version   ?3 deadline   ?4 expiry   ?5 now
UPDATE task_queue SET lease_deadline = ?3, lease_expiry = ?4, updated_at = ?5
WHERE id = ?1 AND version = ?2

-- name: progress
-- Stores how far a task has come.
--   ?1 id   ?2 version   ?3 progress   ?4 now
UPDATE task_queue SET progress = ?3, updated_at = ?4
WHERE id = ?1 AND version = ?2

-- name: complete
-- Completes a task and keeps it.
--   ?1 id   ?2 version   ?3 result or null   ?4 now
UPDATE task_queue
SET state = 'completed', version = version + 1, result = ?3, lease_deadline = NULL,
    lease_expiry = NULL, finished_at = ?4, updated_at = ?4
WHERE id = ?1 AND version = ?2

-- name: complete_and_delete
-- Completes a task by deleting it.
--   ?1 id   ?2 version
DELETE FROM task_queue WHERE id = ?1 AND version = ?2

-- name: complete_and_delete_many
-- Completes tasks by deleting them. For many tasks this costs two thirds of what complete_and_delete costs for each.
--   ?1 their versions by id, as a JSON object
DELETE FROM task_queue
WHERE id IN (SELECT task.id
             FROM json_each(?1) AS done
             CROSS JOIN task_queue AS task ON task.id = CAST(done.key AS INTEGER)
                                          AND task.version = done.value)

-- name: complete_and_delete_range
-- Completes tasks by deleting them, if their ids follow each other and their versions are the same. No list has to be
-- parsed.
--   ?1 first id   ?2 last id   ?3 version
DELETE FROM task_queue WHERE id BETWEEN ?1 AND ?2 AND version = ?3

-- name: fail
-- Ends a failed attempt: the task is pending again after the delay, or dead if no attempt is left.
--   ?1 id   ?2 version   ?3 error   ?4 delay in µs, null for no retry   ?5 now
-- Reply: the new state, unless the lease was stale.
UPDATE task_queue
SET state = CASE WHEN ?4 IS NULL OR attempts >= max_attempts THEN 'dead' ELSE 'pending' END,
    finished_at = CASE WHEN ?4 IS NULL OR attempts >= max_attempts THEN ?5 END,
    run_at = ?5 + coalesce(?4, 0), version = version + 1, leased_by = NULL, lease_deadline = NULL,
    lease_expiry = NULL, last_error = ?3, updated_at = ?5
WHERE id = ?1 AND version = ?2
RETURNING state

-- name: release
-- Gives a lease back as if the task had never been leased: the attempt does not count.
--   ?1 id   ?2 version   ?3 run_at, null to keep it   ?4 now
UPDATE task_queue
SET state = 'pending', version = version + 1, attempts = attempts - 1, leased_by = NULL,
    lease_deadline = NULL, lease_expiry = NULL, updated_at = ?4, run_at = coalesce(?3, run_at)
WHERE id = ?1 AND version = ?2
