-- Taking back expired leases.

-- name: recover
-- Takes back expired leases. The task is pending again, or dead after too many crashes or attempts.
-- Any number of these may run at once. A renewal or completion that commits first wins, because the condition is
-- checked again on the locked row.
--   $1 only ids above this one   $2 limit   $3 number of crashes after which a task is dead
-- Reply: id, type, new state, the worker that lost the lease, ms since it expired, crashes; in order of id.
WITH expired AS MATERIALIZED (
  SELECT id, leased_by, lease_expiry,
         crash_count + 1 >= $3::integer OR attempts >= max_attempts AS doomed
  FROM "leasehold".tasks
  WHERE state = 'leased' AND lease_expiry < now() AND id > $1::bigint
  ORDER BY id
  LIMIT $2::integer
  FOR NO KEY UPDATE SKIP LOCKED
), recovered AS (
  UPDATE "leasehold".tasks t
  SET state = CASE WHEN expired.doomed THEN 'dead' ELSE 'pending' END,
      finished_at = CASE WHEN expired.doomed THEN now() END,
      version = t.version + 1, crash_count = t.crash_count + 1, leased_by = NULL, lease_expiry = NULL,
      last_error = 'the lease of ' || expired.leased_by || ' expired', updated_at = now()
  FROM expired
  WHERE t.id = expired.id
  RETURNING t.id, t.type, t.state, expired.leased_by, expired.lease_expiry, t.crash_count
)
SELECT id, type, state, leased_by,
       (extract(epoch FROM now() - lease_expiry) * 1000)::bigint, crash_count
FROM recovered
ORDER BY id
