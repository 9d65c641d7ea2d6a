-- Adds a task.
--   ?1 now   ?2 type   ?3 payload   ?4 priority   ?5 run_at   ?6 max_attempts
-- Its id is last_insert_rowid().
INSERT INTO task_queue (created_at, updated_at, type, payload, priority, run_at, max_attempts)
VALUES (?1, ?1, ?2, ?3, ?4, ?5, ?6)
