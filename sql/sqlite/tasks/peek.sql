-- What decides about a change of a task.
--   ?1 id
-- Reply: state, version.
SELECT state, version FROM task_queue WHERE id = ?1
