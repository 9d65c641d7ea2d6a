-- Stores how far a task has come.
--   ?1 id   ?2 version   ?3 progress   ?4 now
UPDATE task_queue SET progress = ?3, updated_at = ?4
WHERE id = ?1 AND version = ?2
