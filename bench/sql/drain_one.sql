-- For pgbench: leases one task and deletes it.
WITH chosen AS MATERIALIZED (
  SELECT id FROM raw.tasks
  WHERE type = 'bench0' AND state = 'pending' AND run_at <= now()
  ORDER BY -priority, run_at, id LIMIT 1
  FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE raw.tasks t
SET state = 'leased', version = t.version + 1, leased_by = 'pgbench',
    lease_expiry = now() + interval '30 s'
FROM chosen WHERE t.id = chosen.id
RETURNING t.id, t.version, t.payload \gset
DELETE FROM raw.tasks WHERE id = :id AND version = :version;
