-- Looking up tasks and the health of a queue.

-- name: get
-- One task.
--   ?1 id
-- Reply: the columns in the order of to_task_record() in lib/src/sqlite/tasks/inspect.cpp; lease_id.
SELECT id, version, type, state, priority, run_at, leased_by, leased_at, lease_expiry, attempts, max_attempts,
       crash_count, unique_key, last_error, created_at, updated_at, finished_at, payload, progress, result, lease_id
FROM task_queue
WHERE id = ?1

-- name: list
-- A page of tasks in order of id.
--   ?1 type or null   ?2 worker or null   ?3 only ids above this one   ?4 limit
--   ?5 whether with payload, progress and result, which are not read otherwise
-- Reply: as for get, without lease_id.
SELECT id, version, type, state, priority, run_at, leased_by, leased_at, lease_expiry, attempts, max_attempts,
       crash_count, unique_key, last_error, created_at, updated_at, finished_at,
       CASE WHEN ?5 THEN payload ELSE '' END, CASE WHEN ?5 THEN progress END, CASE WHEN ?5 THEN result END
FROM task_queue
WHERE id > ?3 AND (?1 IS NULL OR type = ?1) AND (?2 IS NULL OR leased_by = ?2)
ORDER BY id
LIMIT ?4

-- name: list_pending
-- The same for pending tasks. Its cost depends on how many tasks are pending, but not on how many others there are.
-- Those of the page are found by the entries of the index alone.
SELECT id, version, type, state, priority, run_at, leased_by, leased_at, lease_expiry, attempts, max_attempts,
       crash_count, unique_key, last_error, created_at, updated_at, finished_at,
       CASE WHEN ?5 THEN payload ELSE '' END, CASE WHEN ?5 THEN progress END, CASE WHEN ?5 THEN result END
FROM task_queue
WHERE id IN (SELECT id FROM task_queue INDEXED BY task_ready
             WHERE state = 'pending' AND id > ?3
               AND (?1 IS NULL OR type = ?1) AND (?2 IS NULL OR leased_by = ?2)
             ORDER BY id LIMIT ?4)
ORDER BY id

-- name: list_leased
-- The same for leased tasks.
SELECT id, version, type, state, priority, run_at, leased_by, leased_at, lease_expiry, attempts, max_attempts,
       crash_count, unique_key, last_error, created_at, updated_at, finished_at,
       CASE WHEN ?5 THEN payload ELSE '' END, CASE WHEN ?5 THEN progress END, CASE WHEN ?5 THEN result END
FROM task_queue
WHERE id IN (SELECT id FROM task_queue INDEXED BY task_leased
             WHERE state = 'leased' AND id > ?3
               AND (?1 IS NULL OR type = ?1) AND (?2 IS NULL OR leased_by = ?2)
             ORDER BY id LIMIT ?4)
ORDER BY id

-- name: list_finished
-- The same for tasks that are completed, dead or cancelled.
--   ?6 state
SELECT id, version, type, state, priority, run_at, leased_by, leased_at, lease_expiry, attempts, max_attempts,
       crash_count, unique_key, last_error, created_at, updated_at, finished_at,
       CASE WHEN ?5 THEN payload ELSE '' END, CASE WHEN ?5 THEN progress END, CASE WHEN ?5 THEN result END
FROM task_queue
WHERE id IN (SELECT id FROM task_queue INDEXED BY task_finished
             WHERE finished_at IS NOT NULL AND state = ?6 AND id > ?3
               AND (?1 IS NULL OR type = ?1) AND (?2 IS NULL OR leased_by = ?2)
             ORDER BY id LIMIT ?4)
ORDER BY id

-- name: peek
-- What decides whether a task may be changed.
--   ?1 id
-- Reply: state, version.
SELECT state, version FROM task_queue WHERE id = ?1

-- name: counts
-- Counts tasks by type and state. Reads at most ?1 + 1 index entries of each. Leased tasks are few, and all are
-- counted.
--   ?1 where counting stops
-- Reply: type, state, number. A number above ?1 means "more than ?1".
--
-- Finds the types by jumping from one to the next in the index.
WITH RECURSIVE ready_types (type) AS (
    SELECT (SELECT min(type) FROM task_queue WHERE state = 'pending')
  UNION ALL
    SELECT (SELECT min(t.type) FROM task_queue t WHERE t.state = 'pending' AND t.type > ready_types.type)
    FROM ready_types WHERE ready_types.type IS NOT NULL
), finished_kinds (state, type) AS (
    SELECT s.state, (SELECT min(t.type) FROM task_queue t
                     WHERE t.finished_at IS NOT NULL AND t.state = s.state)
    FROM (SELECT 'cancelled' AS state UNION ALL SELECT 'completed' UNION ALL SELECT 'dead') AS s
  UNION ALL
    SELECT finished_kinds.state,
           (SELECT min(t.type) FROM task_queue t
            WHERE t.finished_at IS NOT NULL AND t.state = finished_kinds.state
              AND t.type > finished_kinds.type)
    FROM finished_kinds WHERE finished_kinds.type IS NOT NULL
)
SELECT ready_types.type, 'pending' AS state,
       (SELECT count(*) FROM (SELECT 1 FROM task_queue t
                              WHERE t.state = 'pending' AND t.type = ready_types.type LIMIT ?1 + 1))
FROM ready_types WHERE ready_types.type IS NOT NULL
UNION ALL
SELECT type, 'leased', count(*) FROM task_queue WHERE state = 'leased' GROUP BY type
UNION ALL
SELECT finished_kinds.type, finished_kinds.state,
       (SELECT count(*) FROM (SELECT 1 FROM task_queue t
                              WHERE t.finished_at IS NOT NULL AND t.state = finished_kinds.state
                                AND t.type = finished_kinds.type LIMIT ?1 + 1))
FROM finished_kinds WHERE finished_kinds.type IS NOT NULL
ORDER BY 1, 2

-- name: health
-- The health of a queue.
--   ?1 now   ?2 now by the clock that judges leases   ?3 where counting rows stops
-- Reply: run_at of the oldest task that is due, or null; lease_deadline of the oldest expired lease, or null; rows;
-- expired leases that were taken back so far: requeued, dead.
--
-- `heads` jumps from each type and priority to the next in the index task_ready. Its cost depends on how many of them
-- are in use, and not on the number of tasks.
WITH RECURSIVE heads (id, type, priority, run_at) AS (
    SELECT * FROM (SELECT id, type, priority, run_at FROM task_queue
                   WHERE state = 'pending' ORDER BY type, priority DESC, run_at, id LIMIT 1)
  UNION ALL
    SELECT t.id, t.type, t.priority, t.run_at
    FROM heads
    JOIN task_queue t ON t.id = coalesce(
      (SELECT n.id FROM task_queue n
       WHERE n.state = 'pending' AND n.type = heads.type AND n.priority < heads.priority
       ORDER BY n.priority DESC, n.run_at, n.id LIMIT 1),
      (SELECT n.id FROM task_queue n
       WHERE n.state = 'pending' AND n.type > heads.type
       ORDER BY n.type, n.priority DESC, n.run_at, n.id LIMIT 1))
)
SELECT (SELECT min(run_at) FROM heads WHERE run_at <= ?1),
       (SELECT min(lease_deadline) FROM task_queue WHERE state = 'leased' AND lease_deadline < ?2),
       (SELECT count(*) FROM (SELECT 1 FROM task_queue LIMIT ?3)),
       (SELECT requeued FROM task_recovered),
       (SELECT dead FROM task_recovered)
