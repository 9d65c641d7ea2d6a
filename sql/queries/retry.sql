-- Gives a dead or cancelled task all its attempts again, from now.
--   $1 id   $2 channel to notify, or null
-- Reply: whether it was done, and whether there is such a task at all.
WITH revived AS (
  UPDATE "leasehold".tasks
  SET state = 'pending', version = version + 1, attempts = 0, crash_count = 0, run_at = now(),
      leased_by = NULL, finished_at = NULL, updated_at = now()
  WHERE id = $1::bigint AND state IN ('dead', 'cancelled')
  RETURNING id
)
SELECT EXISTS (SELECT FROM revived), EXISTS (SELECT FROM "leasehold".tasks WHERE id = $1::bigint),
       (SELECT pg_notify($2::text, '') FROM revived WHERE $2::text IS NOT NULL)
