-- Updates of the task table that touched no index (HOT), and all.
--   schema
SELECT n_tup_hot_upd, n_tup_upd FROM pg_stat_user_tables
WHERE schemaname = :'schema' AND relname = 'tasks';
