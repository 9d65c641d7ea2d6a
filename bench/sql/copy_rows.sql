-- Writes what copy.sql reads.
--   schema, by the search path
SET search_path = :"schema";
\copy (SELECT type, payload, run_at, priority, max_attempts FROM tasks ORDER BY id) TO 'tasks.copy'
