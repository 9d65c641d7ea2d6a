-- Completes a task by deleting it.
--   ?1 id   ?2 version
DELETE FROM task_queue WHERE id = ?1 AND version = ?2
