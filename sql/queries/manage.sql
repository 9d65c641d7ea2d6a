-- What operators do with tasks.

-- name: update
-- Changes a task if it is not leased and still has the expected version (function update_task() in migration 1).
--   $1 id   $2 expected version   $3 payload   $4 priority   $5 run_at in microseconds   $6 progress.
--   Null for no change.
-- Reply: the new version and the type, if the task was changed.
SELECT version, type
FROM "leasehold".update_task($1::bigint, $2::bigint, $3::json, $4::integer, $5::bigint, $6::json)

-- name: cancel
-- Cancels a pending or leased task (function cancel_task() in migration 1).
--   $1 id
-- Reply: the state before, pending or leased, if it was cancelled; and whether the task exists.
SELECT was, existed FROM "leasehold".cancel_task($1::bigint)

-- name: retry
-- Makes a dead or cancelled task pending again, due now, with all its attempts (function retry_task() in migration 1).
--   $1 id   $2 channel to notify, or null
-- Reply: whether that was done, and whether the task exists.
SELECT revived IS NOT NULL, existed,
       CASE WHEN revived IS NOT NULL AND $2::text IS NOT NULL THEN pg_notify($2::text, revived || E'\t1') END
FROM "leasehold".retry_task($1::bigint)

-- name: may_drop_days
-- Whether this user may drop whole days of completed tasks. To call drop_days() without that right would leave an
-- error in the server's log each time.
-- Reply: that.
SELECT has_function_privilege('"leasehold".drop_days(bigint)', 'EXECUTE')

-- name: drop_days
-- Drops whole days of completed tasks that ended long enough ago (function drop_days() in migration 1).
--   $1 age in ms
-- Reply: how many tasks.
SELECT "leasehold".drop_days($1::bigint)

-- name: add_days
-- Adds partitions for the completed tasks of the coming days (function add_days() in migration 1).
SELECT "leasehold".add_days(7)

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
-- Deletes completed tasks that ended long enough ago. Looks at some in order of id.
--   $1 age in ms   $2 limit   $3 only ids above this one   $4 how many it looks at
-- Reply: how many were deleted; the last id that was looked at, or null if there are no more.
--
-- finished_at is in no index. But those that were added first are nearly always those that ended first. So the caller
-- stops where all are to be kept, and need not read the rest.
WITH looked_at AS MATERIALIZED (
  SELECT id, finished_at
  FROM "leasehold".finished_tasks
  WHERE state = 'completed' AND id > $3::bigint
  ORDER BY id
  LIMIT $4::integer
), old AS MATERIALIZED (
  SELECT f.id
  FROM "leasehold".finished_tasks f
  WHERE f.state = 'completed'
    AND f.id = ANY (ARRAY(
      SELECT l.id FROM looked_at l
      WHERE l.finished_at < now() - $1::bigint * interval '1 ms'
      ORDER BY l.id
      LIMIT $2::integer))
  FOR UPDATE SKIP LOCKED
), deleted AS (
  DELETE FROM "leasehold".finished_tasks
  WHERE state = 'completed' AND id = ANY (ARRAY(SELECT id FROM old))
  RETURNING 1
)
SELECT (SELECT count(*) FROM deleted), CASE WHEN count(*) = $4::integer THEN max(id) END
FROM looked_at

-- name: remove_finished
-- Deletes one chunk of the dead or cancelled tasks that ended long enough ago.
--   $1 state   $2 age in ms   $3 limit
-- Reply: how many were deleted.
--
-- By the index on id. For a join the planner would read whole partitions, and a ctid is unique only within one. The
-- oldest first: without an order the planner may read the table from its beginning, where those were that have been
-- deleted already.
WITH old AS MATERIALIZED (
  SELECT id
  FROM "leasehold".finished_tasks
  WHERE state = $1::text AND finished_at < now() - $2::bigint * interval '1 ms'
  ORDER BY finished_at
  LIMIT $3::integer
  FOR UPDATE SKIP LOCKED
), deleted AS (
  DELETE FROM "leasehold".finished_tasks
  WHERE state = $1::text AND id = ANY (ARRAY(SELECT id FROM old))
  RETURNING 1
)
SELECT count(*) FROM deleted
