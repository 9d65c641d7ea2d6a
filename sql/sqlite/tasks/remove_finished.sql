-- Deletes tasks of a type that finished in a state before a time.
--   ?1 state   ?2 type   ?3 time   ?4 at most so many
DELETE FROM task_queue
WHERE id IN (SELECT id FROM task_queue INDEXED BY task_finished
             WHERE finished_at IS NOT NULL AND state = ?1 AND type = ?2 AND finished_at < ?3
             ORDER BY finished_at
             LIMIT ?4)
