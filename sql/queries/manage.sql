-- What operators do with tasks.

-- name: update
-- Changes a task if it is not leased and still has the expected version.
--   $1 id   $2 expected version   $3 payload   $4 priority   $5 run_at in µs   $6 progress; null for no change
-- Reply: the new version and the type, if the task was changed.
WITH pending AS (
  UPDATE "leasehold".tasks
  SET payload = coalesce($3::json, payload), priority = coalesce($4::integer, priority),
      run_at = coalesce(timestamptz 'epoch' + $5::bigint * interval '1 us', run_at),
      progress = coalesce($6::json, progress), version = version + 1, updated_at = now()
  WHERE id = $1::bigint AND version = $2::bigint AND state = 'pending'
  RETURNING version, type
), finished AS (
  UPDATE "leasehold".finished_tasks
  SET payload = coalesce($3::json, payload), priority = coalesce($4::integer, priority),
      run_at = coalesce(timestamptz 'epoch' + $5::bigint * interval '1 us', run_at),
      progress = coalesce($6::json, progress), version = version + 1, updated_at = now()
  WHERE id = $1::bigint AND version = $2::bigint
  RETURNING version, type
)
SELECT version, type FROM pending
UNION ALL
SELECT version, type FROM finished

-- name: cancel
-- Cancels a pending or leased task. The lease of its worker is stale from then on.
--   $1 id
-- Reply: the state before, pending or leased, if it was cancelled; and whether the task exists.
WITH gone AS (
  DELETE FROM "leasehold".tasks WHERE id = $1::bigint RETURNING *
), cancelled AS (
  INSERT INTO "leasehold".finished_tasks (
    id, version, lease_id, run_at, leased_at, created_at, updated_at, finished_at, priority, attempts,
    max_attempts, crash_count, type, state, leased_by, unique_key, payload, progress, last_error)
  SELECT id, version + 1, lease_id, run_at, leased_at, created_at, now(), now(), priority, attempts,
         max_attempts, crash_count, type, 'cancelled', leased_by, unique_key, payload, progress, last_error
  FROM gone
)
SELECT (SELECT state FROM gone),
       EXISTS (SELECT FROM "leasehold".tasks WHERE id = $1::bigint)
         OR EXISTS (SELECT FROM "leasehold".finished_tasks WHERE id = $1::bigint)

-- name: retry
-- Makes a dead or cancelled task pending again, due now, with all its attempts.
--   $1 id   $2 channel to notify, or null
-- Reply: whether that was done, and whether the task exists.
WITH gone AS (
  DELETE FROM "leasehold".finished_tasks
  WHERE id = $1::bigint AND state IN ('dead', 'cancelled')
  RETURNING *
), revived AS (
  INSERT INTO "leasehold".tasks (
    id, version, lease_id, leased_at, created_at, priority, max_attempts, type, unique_key, payload, progress,
    last_error)
  SELECT id, version + 1, lease_id, leased_at, created_at, priority, max_attempts, type, unique_key, payload,
         progress, last_error
  FROM gone
  RETURNING type
)
SELECT EXISTS (SELECT FROM revived),
       EXISTS (SELECT FROM "leasehold".tasks WHERE id = $1::bigint)
         OR EXISTS (SELECT FROM "leasehold".finished_tasks WHERE id = $1::bigint),
       (SELECT pg_notify($2::text, type || E'\t1') FROM revived WHERE $2::text IS NOT NULL)

-- name: drop_days
-- Drops whole days of completed tasks that ended long enough ago (function drop_days() in migration 1).
--   $1 age in ms
-- Reply: how many tasks.
SELECT "leasehold".drop_days($1::bigint)

-- name: add_days
-- Adds partitions for the completed tasks of the coming days (function add_days() in migration 1).
SELECT "leasehold".add_days(3)

-- name: remove_stray
-- Deletes one chunk of completed tasks that ended long enough ago, of those that are in no day's partition.
--   $1 age in ms   $2 limit
-- Reply: how many were deleted.
WITH old AS MATERIALIZED (
  SELECT ctid AS place
  FROM "leasehold".finished_completed_other
  WHERE finished_at < now() - $1::bigint * interval '1 ms'
  LIMIT $2::integer
  FOR UPDATE SKIP LOCKED
), deleted AS (
  DELETE FROM "leasehold".finished_completed_other
  WHERE ctid = ANY (ARRAY(SELECT place FROM old))
  RETURNING 1
)
SELECT count(*) FROM deleted

-- name: remove_completed
-- Deletes one chunk of the completed tasks that ended long enough ago.
--   $1 age in ms   $2 limit
-- Reply: how many were deleted.
--
-- In order of id, because finished_at is in no index: those that were added first are nearly always those that
-- ended first.
WITH old AS MATERIALIZED (
  SELECT id
  FROM "leasehold".finished_tasks
  WHERE state = 'completed' AND finished_at < now() - $1::bigint * interval '1 ms'
  ORDER BY id
  LIMIT $2::integer
  FOR UPDATE SKIP LOCKED
), deleted AS (
  DELETE FROM "leasehold".finished_tasks
  WHERE state = 'completed' AND id = ANY (ARRAY(SELECT id FROM old))
  RETURNING 1
)
SELECT count(*) FROM deleted

-- name: remove_finished
-- Deletes one chunk of the dead or cancelled tasks that ended long enough ago.
--   $1 state   $2 age in ms   $3 limit
-- Reply: how many were deleted.
--
-- By the index on id. For a join the planner would read whole partitions, and a ctid is unique only within one.
WITH old AS MATERIALIZED (
  SELECT id
  FROM "leasehold".finished_tasks
  WHERE state = $1::text AND finished_at < now() - $2::bigint * interval '1 ms'
  LIMIT $3::integer
  FOR UPDATE SKIP LOCKED
), deleted AS (
  DELETE FROM "leasehold".finished_tasks
  WHERE state = $1::text AND id = ANY (ARRAY(SELECT id FROM old))
  RETURNING 1
)
SELECT count(*) FROM deleted
