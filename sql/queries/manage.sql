-- What operators do with tasks.

-- name: update
-- Changes a task if it is not leased and still has the expected version.
--   $1 id   $2 expected version   $3 payload   $4 priority   $5 run_at in µs   $6 progress; null for no change
-- Reply: the new version and the type, if the task was changed.
UPDATE "leasehold".tasks
SET payload = coalesce($3::json, payload), priority = coalesce($4::integer, priority),
    run_at = coalesce(timestamptz 'epoch' + $5::bigint * interval '1 us', run_at),
    progress = coalesce($6::json, progress), version = version + 1, updated_at = now()
WHERE id = $1::bigint AND version = $2::bigint AND state <> 'leased'
RETURNING version, type

-- name: cancel
-- Cancels a pending or leased task. The lease of its worker is stale from then on.
--   $1 id
-- Reply: the state before, pending or leased, if it was cancelled; and whether the task exists.
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

-- name: retry
-- Makes a dead or cancelled task pending again, due now, with all its attempts.
--   $1 id   $2 channel to notify, or null
-- Reply: whether that was done, and whether the task exists.
WITH revived AS (
  UPDATE "leasehold".tasks
  SET state = 'pending', version = version + 1, attempts = 0, crash_count = 0, run_at = now(),
      leased_by = NULL, finished_at = NULL, updated_at = now()
  WHERE id = $1::bigint AND state IN ('dead', 'cancelled')
  RETURNING id
)
SELECT EXISTS (SELECT FROM revived), EXISTS (SELECT FROM "leasehold".tasks WHERE id = $1::bigint),
       (SELECT pg_notify($2::text, '') FROM revived WHERE $2::text IS NOT NULL)

-- name: remove_finished
-- Deletes one chunk of the tasks that finished in a state long enough ago.
--   $1 state   $2 age in ms   $3 limit
-- Reply: how many were deleted.
--
-- Goes type by type, in the order of the index tasks_finished.
WITH RECURSIVE types (type) AS (
    (SELECT type FROM "leasehold".tasks
     WHERE finished_at IS NOT NULL AND state = $1::text ORDER BY type LIMIT 1)
  UNION ALL
    SELECT (SELECT t.type FROM "leasehold".tasks t
            WHERE t.finished_at IS NOT NULL AND t.state = $1::text AND t.type > types.type
            ORDER BY t.type LIMIT 1)
    FROM types WHERE types.type IS NOT NULL
), old AS MATERIALIZED (
  SELECT found.id
  FROM types
  CROSS JOIN LATERAL (
    SELECT t.id FROM "leasehold".tasks t
    WHERE t.state = $1::text AND t.type = types.type
      AND t.finished_at < now() - $2::bigint * interval '1 ms'
    ORDER BY t.finished_at
    LIMIT $3::integer
    FOR UPDATE SKIP LOCKED
  ) AS found
  LIMIT $3::integer
), deleted AS (
  DELETE FROM "leasehold".tasks t USING old WHERE t.id = old.id RETURNING 1
)
SELECT count(*) FROM deleted
