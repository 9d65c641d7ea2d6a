-- Adds the tasks of a file in the working directory; says how long that took.
--   schema, by the search path: \copy knows no variables
SET search_path = :"schema";
\timing on
\copy tasks (type, payload, run_at, priority, max_attempts) FROM 'tasks.copy'
