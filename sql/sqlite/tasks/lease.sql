-- Leasing tasks that are due.

-- name: due
-- The pending tasks of a type, in the order in which they are leased.
--   ?1 type   ?2 only priorities below this one
-- Reply: the columns that append_due() in lib/src/sqlite/tasks/leasing.cpp reads. After the first task that is not
-- due, the rest of its priority is not due either, and the reader goes on below that priority.
SELECT id, priority, run_at, version, payload, progress, attempts, max_attempts, crash_count, suspect
FROM task_queue INDEXED BY task_ready
WHERE state = 'pending' AND type = ?1 AND priority < ?2
ORDER BY priority DESC, run_at, id

-- name: lease
-- Leases a pending task. One that is suspect is always leased as started.
--   ?1 id   ?2 worker   ?3 deadline   ?4 expiry   ?5 now   ?6 lease id   ?7 whether as started
-- Without RETURNING, which costs twice as much as all the rest: the values are known from due.
UPDATE task_queue
SET state = 'leased', version = version + 1, attempts = attempts + 1, leased_by = ?2,
    lease_deadline = ?3, lease_expiry = ?4, updated_at = ?5, leased_at = ?5, lease_id = ?6, started = max(?7, suspect)
WHERE id = ?1

-- name: lease_level
-- Leases the first pending tasks of a type and priority, which due has returned. For many tasks this costs a third
-- of what lease costs for each.
--   ?1 type   ?2 priority   ?3 how many   ?4 worker   ?5 deadline   ?6 expiry   ?7 now
--   ?8 lease id   ?9 whether as started
UPDATE task_queue
SET state = 'leased', version = version + 1, attempts = attempts + 1, leased_by = ?4,
    lease_deadline = ?5, lease_expiry = ?6, updated_at = ?7, leased_at = ?7, lease_id = ?8, started = max(?9, suspect)
WHERE id IN (SELECT id FROM task_queue INDEXED BY task_ready
             WHERE state = 'pending' AND type = ?1 AND priority = ?2
             ORDER BY run_at, id LIMIT ?3)

-- name: lease_range
-- Leases tasks whose ids follow each other, all of which due has returned.
--   ?1 first id   ?2 last id   ?3 worker   ?4 deadline   ?5 expiry   ?6 now   ?7 lease id
--   ?8 whether as started
UPDATE task_queue
SET state = 'leased', version = version + 1, attempts = attempts + 1, leased_by = ?3,
    lease_deadline = ?4, lease_expiry = ?5, updated_at = ?6, leased_at = ?6, lease_id = ?7, started = max(?8, suspect)
WHERE id BETWEEN ?1 AND ?2

-- name: start
-- Marks tasks as started whose ids follow each other, all of which this transaction has leased.
--   ?1 first id   ?2 last id
UPDATE task_queue SET started = 1 WHERE id BETWEEN ?1 AND ?2
