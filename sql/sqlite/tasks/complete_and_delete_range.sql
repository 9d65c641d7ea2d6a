-- Completes tasks by deleting them, if their ids follow each other and their versions are the same: no list has
-- to be read.
--   ?1 first id   ?2 last id   ?3 version
DELETE FROM task_queue WHERE id BETWEEN ?1 AND ?2 AND version = ?3
