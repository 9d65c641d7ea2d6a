-- Cancels a living task. Its worker's lease is stale from then on.
--   $1 id
-- Reply: what it was, pending or leased, and whether there is such a task at all.
WITH living AS MATERIALIZED (
  SELECT id, state FROM "leasehold".tasks
  WHERE id = $1::bigint AND state IN ('pending', 'leased')
  FOR NO KEY UPDATE
), cancelled AS (
  UPDATE "leasehold".tasks t
  SET state = 'cancelled', version = t.version + 1, lease_expiry = NULL, finished_at = now(),
      updated_at = now()
  FROM living
  WHERE t.id = living.id
  RETURNING living.state
)
SELECT (SELECT state FROM cancelled), EXISTS (SELECT FROM "leasehold".tasks WHERE id = $1::bigint)
