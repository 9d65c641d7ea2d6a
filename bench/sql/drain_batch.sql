-- For pgbench: leases 500 tasks and deletes them.
WITH chosen AS MATERIALIZED (
  SELECT id FROM raw.tasks
  WHERE type = 'bench0' AND state = 'pending' AND run_at <= now()
  ORDER BY -priority, run_at, id LIMIT 500
  FOR NO KEY UPDATE SKIP LOCKED
), leased AS (
  UPDATE raw.tasks t
  SET state = 'leased', version = t.version + 1, leased_by = 'pgbench',
      lease_expiry = now() + interval '30 s'
  FROM chosen WHERE t.id = chosen.id
  RETURNING t.id
)
SELECT array_agg(id) AS ids FROM leased \gset
DELETE FROM raw.tasks WHERE id = ANY (:ids);
