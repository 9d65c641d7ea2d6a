-- Leasing tasks that are due.

-- name: lease
-- Leases tasks that are due. The function lease() in sql/migrations/0001_tasks.sql picks the rows.
--   $1 worker   $2 lease id   $3 duration in ms   $4 limit for each type   $5 limit for all
--   $6 limit of bytes   $7 how many are started at once   $8 whether the commit waits for the disk
--   $9 patience, in ms   $10 types   $11 whether to search for priorities without a floor, for each type
--   $12 $13 $14 $15 floors: index of the type, from 1; rank; run_at in microseconds; id
-- Reply: the tasks, with columns in the order of to_leased_task() in lib/src/postgres/rows.cpp. One row of nulls
-- if too many others are leasing now.
SELECT id, version, type, priority, payload, progress, attempts, max_attempts, crash_count, run_at, started,
       suspect, cut
FROM "leasehold".lease(
  $1::text, $2::bigint, $3::bigint, $4::integer, $5::integer, $6::bigint, $7::integer, $8::boolean,
  $9::bigint, $10::text[], $11::boolean[], $12::integer[], $13::integer[], $14::bigint[], $15::bigint[])

-- name: complete_and_lease
-- Completes tasks and leases others (function complete_and_lease() in migration 1).
--   $1 to $6 as those of complete   $7 to $13 as $1 to $7 of lease   $14 to $19 as $10 to $15 of lease
-- Reply: the completed tasks: id, and in the last column the lease id, with nulls in between; then the reply of
-- lease, with null in the last column.
SELECT id, version, type, priority, payload, progress, attempts, max_attempts, crash_count, run_at, started,
       suspect, cut, completed
FROM "leasehold".complete_and_lease(
  $1::bigint[], $2::bigint[], $3::bigint[], $4::json[], $5::boolean, $6::bigint,
  $7::text, $8::bigint, $9::bigint, $10::integer, $11::integer, $12::bigint, $13::integer,
  $14::text[], $15::boolean[], $16::integer[], $17::integer[], $18::bigint[], $19::bigint[])

-- name: give_back
-- Gives back the tasks of calls of lease whose reply was lost (function give_back() in migration 1).
--   $1 lease ids
-- Reply: lease id and type of each task.
SELECT lease, type FROM "leasehold".give_back($1::bigint[])

-- name: look_after
-- What each process that looks for tasks does about once a second (function look_after() in migration 1).
--   $1 the process   $2 limit, 0 if it may not recover leases   $3 limit of bytes
--   $4 number of crashes after which a task is dead
-- Reply: at least one row: processes that look for tasks; and the columns of recover, or nulls.
SELECT fleet, id, type, state, lost_by, overdue_ms, crashes
FROM "leasehold".look_after($1::text, $2::integer, $3::bigint, $4::integer)
