-- Leasing tasks that are due.

-- name: lease
-- Leases tasks that are due. The function lease() in sql/migrations/0001_tasks.sql picks the rows.
--   $1 worker   $2 lease id   $3 duration in ms   $4 limit for each type   $5 limit for all
--   $6 limit of bytes   $7 how many are started at once   $8 whether the commit waits for the disk   $9 types
--   $10 $11 $12 $13 floors: index of the type, from 1; rank; run_at in µs; id
-- Reply: the tasks, with columns in the order of to_leased_task() in lib/src/postgres/rows.cpp. One row of nulls
-- if too many others are leasing now.
SELECT id, version, type, priority, payload, progress, attempts, max_attempts, crash_count, run_at, started,
       suspect, cut
FROM "leasehold".lease(
  $1::text, $2::bigint, $3::bigint, $4::integer, $5::integer, $6::bigint, $7::integer, $8::boolean,
  $9::text[], $10::integer[], $11::integer[], $12::bigint[], $13::bigint[])

-- name: complete_and_lease
-- Completes tasks and leases others (function complete_and_lease() in migration 1).
--   $1 to $6 as those of complete   $7 to $13 as $1 to $7 of lease   $14 to $18 as $9 to $13 of lease
-- Reply: the ids of completed tasks, with nulls in the other columns; then the reply of lease.
SELECT id, version, type, priority, payload, progress, attempts, max_attempts, crash_count, run_at, started,
       suspect, cut
FROM "leasehold".complete_and_lease(
  $1::bigint[], $2::bigint[], $3::bigint[], $4::json[], $5::boolean, $6::bigint,
  $7::text, $8::bigint, $9::bigint, $10::integer, $11::integer, $12::bigint, $13::integer,
  $14::text[], $15::integer[], $16::integer[], $17::bigint[], $18::bigint[])

-- name: give_back
-- Gives back the tasks of calls of lease whose reply was lost, as if they had never been leased. Those that
-- somebody has locked are left to the next call.
--   $1 lease ids
-- Reply: lease id and type of each task.
WITH mine AS MATERIALIZED (
  SELECT ctid AS place
  FROM "leasehold".tasks
  WHERE state = 'leased' AND leased_at >= (SELECT "leasehold".leases_from()) AND lease_id = ANY ($1::bigint[])
  FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE "leasehold".tasks
SET state = 'pending', version = version + 1, attempts = attempts - 1, leased_by = NULL, lease_expiry = NULL,
    started = false, updated_at = now()
WHERE ctid = ANY (ARRAY(SELECT place FROM mine))
RETURNING lease_id, type

-- name: look_after
-- What each process that looks for tasks does about once a second (function look_after() in migration 1).
--   $1 the process   $2 limit   $3 number of crashes after which a task is dead
-- Reply: at least one row: processes that look for tasks; and the columns of recover, or nulls.
SELECT fleet, id, type, state, lost_by, overdue_ms, crashes
FROM "leasehold".look_after($1::text, $2::integer, $3::integer)
