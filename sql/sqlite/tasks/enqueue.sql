-- Adding tasks, and noticing new ones.

-- name: enqueue
-- Adds a task.
--   ?1 now   ?2 type   ?3 payload   ?4 priority   ?5 run_at   ?6 max_attempts
-- Its id is last_insert_rowid().
INSERT INTO task_queue (created_at, updated_at, type, payload, priority, run_at, max_attempts)
VALUES (?1, ?1, ?2, ?3, ?4, ?5, ?6)

-- name: enqueue_unique
-- Adds a task with a unique key, unless a pending or leased task has the same one.
--   ?1 to ?6 as for enqueue   ?7 unique key
INSERT INTO task_queue (created_at, updated_at, type, payload, priority, run_at, max_attempts,
                        unique_key)
VALUES (?1, ?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (unique_key) WHERE unique_key IS NOT NULL AND state IN ('pending', 'leased') DO NOTHING

-- name: living
-- The pending or leased task that has a unique key.
--   ?1 unique key
-- Reply: its id.
SELECT id FROM task_queue
WHERE unique_key = ?1 AND unique_key IS NOT NULL AND state IN ('pending', 'leased')

-- name: added
-- A number that grows whenever tasks are added, by which other processes notice them.
SELECT seq FROM sqlite_sequence WHERE name = 'task_queue'

-- name: tell
-- Makes other processes notice a task that is pending again. Skips an id, as if a task had been added.
UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'task_queue'
