-- The size of the task table and of its indexes in bytes, its dead rows as far as they are known,
-- and how often autovacuum has finished with it.
--   schema
SELECT pg_table_size(relid), pg_indexes_size(relid), n_dead_tup, autovacuum_count
FROM pg_stat_user_tables WHERE schemaname = :'schema' AND relname = 'tasks';
