-- Nothing but leases that have expired.
--   schema, rows
TRUNCATE :"schema".tasks;
INSERT INTO :"schema".tasks (type, payload, state, version, leased_by, leased_at, lease_expiry)
SELECT 'bench0', json_build_object('n', n, 'to', 'somebody@example.com'), 'leased', 1,
       'worker' || n % 100, now() - interval '31 s', now() - interval '1 s'
FROM generate_series(1, :rows) AS n;
VACUUM ANALYZE :"schema".tasks;
