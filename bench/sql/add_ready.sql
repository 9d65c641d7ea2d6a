-- Ready tasks that go before all others of their priority: half of priority 10, half of priority 0.
--   schema, rows
INSERT INTO :"schema".tasks (type, payload, priority, run_at)
SELECT 'bench0', json_build_object('n', n, 'to', 'somebody@example.com'), n % 2 * 10,
       now() - interval '1 h'
FROM generate_series(1, :rows) AS n;
