-- Ready tasks up to a number of them, oldest first.
--   schema, rows, types: how many types they are of
INSERT INTO :"schema".tasks (type, payload, run_at)
SELECT 'bench' || n % :types, json_build_object('n', n, 'to', 'somebody@example.com'),
       now() - interval '1 s'
FROM generate_series(1, :rows - (SELECT count(*) FROM :"schema".tasks)) AS n;
VACUUM ANALYZE :"schema".tasks;
