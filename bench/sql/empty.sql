-- No tasks.
--   schema
TRUNCATE :"schema".tasks;
VACUUM ANALYZE :"schema".tasks;
