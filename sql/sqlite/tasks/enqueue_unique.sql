-- Adds a task with a unique key, unless a living one has it.
--   ?1 to ?6 as for enqueue.sql   ?7 unique key
-- Changes nothing if the key is taken.
INSERT INTO task_queue (created_at, updated_at, type, payload, priority, run_at, max_attempts,
                        unique_key)
VALUES (?1, ?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (unique_key) WHERE unique_key IS NOT NULL AND state IN ('pending', 'leased') DO NOTHING
