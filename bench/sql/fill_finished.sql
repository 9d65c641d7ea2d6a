-- Tasks that ended today: one in a hundred is dead, the others are completed. Later tasks get
-- higher ids, as if these had gone before them.
--   schema, rows, next_id
-- Reply: the bytes of all finished tasks, with their indexes.
INSERT INTO :"schema".finished_tasks (
  id, version, lease_id, run_at, created_at, updated_at, finished_at, priority, attempts,
  max_attempts, crash_count, type, state, leased_by, payload)
SELECT n, 2, n * 7919, now(), now(), now(), now(), 0, 1, 10, 0, 'bench' || n % 4,
       CASE n % 100 WHEN 0 THEN 'dead' ELSE 'completed' END, 'worker' || n % 100, '{}'
FROM generate_series(1::bigint, :rows) AS n;
ALTER TABLE :"schema".tasks ALTER id RESTART WITH :next_id;
VACUUM ANALYZE :"schema".finished_tasks;
CHECKPOINT;
SELECT sum(pg_total_relation_size(relid))
FROM pg_partition_tree((:'schema' || '.finished_tasks')::regclass) WHERE isleaf;
