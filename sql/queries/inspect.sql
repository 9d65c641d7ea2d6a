-- Looking up tasks and the health of a queue.

-- name: get
-- One task.
--   $1 id
-- Reply: the columns in the order of to_stored_task() in lib/src/postgres/rows.cpp. Times are in
-- microseconds since 1970.
SELECT id, version, lease_id, type, state, priority, payload, progress, result,
       (extract(epoch FROM run_at) * 1000000)::bigint,
       leased_by, (extract(epoch FROM leased_at) * 1000000)::bigint,
       (extract(epoch FROM lease_expiry) * 1000000)::bigint,
       attempts, max_attempts, crash_count, unique_key, last_error,
       (extract(epoch FROM created_at) * 1000000)::bigint,
       (extract(epoch FROM updated_at) * 1000000)::bigint,
       (extract(epoch FROM finished_at) * 1000000)::bigint
FROM (
  SELECT id, version, lease_id, type, state, priority, payload, progress, NULL::json AS result,
         run_at, leased_by, leased_at, lease_expiry, attempts, max_attempts, crash_count, unique_key, last_error,
         created_at, updated_at, NULL::timestamptz AS finished_at
  FROM "leasehold".tasks
  WHERE id = $1::bigint
  UNION ALL
  SELECT id, version, lease_id, type, state, priority, payload, progress, result,
         run_at, leased_by, leased_at, NULL, attempts, max_attempts, crash_count, unique_key, last_error,
         created_at, updated_at, finished_at
  FROM "leasehold".finished_tasks
  WHERE id = $1::bigint
) AS task

-- name: list
-- A page of tasks in order of id.
--   $1 type or null   $2 state or null   $3 worker or null   $4 only ids above this one   $5 limit
--   $6 whether to read payload, progress and result
-- Reply: as for get.
--
-- The parameters are known when the plan is made. A table that cannot have tasks in the state is not read.
SELECT id, version, lease_id, type, state, priority, payload, progress, result,
       (extract(epoch FROM run_at) * 1000000)::bigint,
       leased_by, (extract(epoch FROM leased_at) * 1000000)::bigint,
       (extract(epoch FROM lease_expiry) * 1000000)::bigint,
       attempts, max_attempts, crash_count, unique_key, last_error,
       (extract(epoch FROM created_at) * 1000000)::bigint,
       (extract(epoch FROM updated_at) * 1000000)::bigint,
       (extract(epoch FROM finished_at) * 1000000)::bigint
FROM (
  (SELECT id, version, lease_id, type, state, priority, CASE WHEN $6::boolean THEN payload END AS payload,
          CASE WHEN $6::boolean THEN progress END AS progress, NULL::json AS result,
          run_at, leased_by, leased_at, lease_expiry, attempts, max_attempts, crash_count, unique_key, last_error,
          created_at, updated_at, NULL::timestamptz AS finished_at
   FROM "leasehold".tasks
   WHERE coalesce($2::text IN ('pending', 'leased'), true)
     AND ($1::text IS NULL OR type = $1::text)
     AND ($2::text IS NULL OR state = $2::text)
     AND ($3::text IS NULL OR leased_by = $3::text)
     AND id > $4::bigint
   ORDER BY id
   LIMIT $5::integer)
  UNION ALL
  (SELECT id, version, lease_id, type, state, priority, CASE WHEN $6::boolean THEN payload END,
          CASE WHEN $6::boolean THEN progress END, CASE WHEN $6::boolean THEN result END,
          run_at, leased_by, leased_at, NULL, attempts, max_attempts, crash_count, unique_key, last_error,
          created_at, updated_at, finished_at
   FROM "leasehold".finished_tasks
   WHERE coalesce($2::text NOT IN ('pending', 'leased'), true)
     AND ($1::text IS NULL OR type = $1::text)
     AND ($2::text IS NULL OR state = $2::text)
     AND ($3::text IS NULL OR leased_by = $3::text)
     AND id > $4::bigint
   ORDER BY id
   LIMIT $5::integer)
) AS task
ORDER BY id
LIMIT $5::integer

-- name: counts
-- Counts tasks by type and state. Function count_tasks() in migration 1 explains how.
--   $1 where counting stops
-- Reply: type, state, number. A number above $1 means "more than $1".
SELECT of_type, in_state, number FROM "leasehold".count_tasks($1::bigint)
ORDER BY of_type COLLATE "C", in_state

-- name: health
-- The health of a queue.
-- Reply: ms since the oldest task became due, or null; ms since the oldest expired lease expired, or null;
-- live rows; dead rows; expired leases that were taken back so far: requeued, dead.
--
-- The functions pending_heads() and leases_from() are in migration 1. The cost depends on how many types and
-- priorities are in use, and on the number of leased tasks.
SELECT (SELECT (extract(epoch FROM now() - min(run_at)) * 1000)::bigint
        FROM "leasehold".pending_heads() WHERE run_at <= now()),
       (SELECT (extract(epoch FROM now() - min(lease_expiry)) * 1000)::bigint
        FROM "leasehold".tasks
        WHERE state = 'leased' AND leased_at >= (SELECT "leasehold".leases_from()) AND lease_expiry < now()),
       pg_stat_get_live_tuples('"leasehold".tasks'::regclass),
       pg_stat_get_dead_tuples('"leasehold".tasks'::regclass),
       (SELECT coalesce(sum(requeued), 0)::bigint FROM "leasehold".recovered),
       (SELECT coalesce(sum(dead), 0)::bigint FROM "leasehold".recovered)

-- name: oldest_snapshot
-- What keeps vacuum from removing dead rows in this database: the oldest transaction, prepared transaction,
-- replication slot or standby.
-- Reply: at most one row: kind, pid, name, user, ms since it began or null, transactions begun since.
--
-- An open transaction that has neither a snapshot nor an id (idle after reading) does no harm, and vacuum ignores
-- other vacuums. The time is null if our user may not see when the transaction of another user began.
SELECT kind, pid, name, username, (extract(epoch FROM now() - began) * 1000)::bigint, transactions
FROM (
  SELECT CASE backend_type WHEN 'walsender' THEN 'replication' ELSE 'transaction' END AS kind,
         pid, application_name AS name, usename::text AS username, xact_start AS began,
         greatest(age(backend_xmin), age(backend_xid))::bigint AS transactions
  FROM pg_stat_activity
  WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
    AND pid <> pg_backend_pid()
    AND backend_type IS DISTINCT FROM 'autovacuum worker'
    AND (datname = current_database() OR backend_type = 'walsender')
    AND pid NOT IN (SELECT pid FROM pg_stat_progress_vacuum)
  UNION ALL
  SELECT 'prepared', NULL, gid, owner::text, prepared, age(transaction)::bigint
  FROM pg_prepared_xacts
  WHERE database = current_database()
  UNION ALL
  SELECT 'replication', active_pid, slot_name::text, NULL, NULL, age(xmin)::bigint
  FROM pg_replication_slots
  WHERE xmin IS NOT NULL
) AS holders
ORDER BY transactions DESC, began NULLS LAST
LIMIT 1
