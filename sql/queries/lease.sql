-- Leasing tasks that are due, alone or together with completions.

-- name: lease
-- Leases tasks that are due. The function lease() in sql/migrations/0001_tasks.sql picks the rows.
--   $1 worker   $2 duration in ms   $3 limit for each type   $4 limit for all   $5 types
--   $6 $7 $8 the floor of each type: rank, run_at in µs, id
-- Reply: the tasks, with columns in the order of to_leased_task() in lib/src/postgres/rows.cpp.
SELECT id, version, type, priority, payload, progress, attempts, max_attempts, crash_count, run_at
FROM "leasehold".lease(
  $1::text, $2::bigint, $3::integer, $4::integer, $5::text[], $6::integer[], $7::bigint[], $8::bigint[])

-- name: lease_and_complete
-- complete and lease in one statement. A lease must not wait for locked rows, so completions whose row somebody
-- has locked are left out, as if their lease were stale. The caller has to repeat them.
--   $1 to $8 as in lease   $9 to $11 as $1 to $3 in complete
-- Reply: first the completed tasks, with an id and nulls; then the leased tasks.
SELECT done.id, NULL AS version, NULL AS type, NULL AS priority, NULL AS payload, NULL AS progress,
       NULL AS attempts, NULL AS max_attempts, NULL AS crash_count, NULL AS run_at
FROM (
  SELECT array_agg(locked.id ORDER BY locked.id) AS ids, array_agg(locked.version ORDER BY locked.id) AS versions,
         array_agg(asked.result ORDER BY locked.id) AS results
  FROM "leasehold".lock_leases($9::bigint[], $10::bigint[]) AS locked
  JOIN unnest($9::bigint[], $10::bigint[], $11::json[]) AS asked (id, version, result)
    ON asked.id = locked.id AND asked.version = locked.version
) AS mine
CROSS JOIN "leasehold".complete(mine.ids, mine.versions, mine.results) AS done (id)
UNION ALL
SELECT id, version, type, priority, payload, progress, attempts, max_attempts, crash_count, run_at
FROM "leasehold".lease(
  $1::text, $2::bigint, $3::integer, $4::integer, $5::text[], $6::integer[], $7::bigint[], $8::bigint[])

-- name: lease_and_delete
-- complete_and_delete and lease in one statement. A lease must not wait for locked rows, so completions whose row
-- somebody has locked are left out, as if their lease were stale. The caller has to repeat them.
--   $1 to $8 as in lease   $9 and $10 as $1 and $2 in complete_and_delete
-- Reply: first the completed tasks, with an id and nulls; then the leased tasks.
SELECT done.id, NULL AS version, NULL AS type, NULL AS priority, NULL AS payload, NULL AS progress,
       NULL AS attempts, NULL AS max_attempts, NULL AS crash_count, NULL AS run_at
FROM (
  SELECT array_agg(id ORDER BY id) AS ids, array_agg(version ORDER BY id) AS versions
  FROM "leasehold".lock_leases($9::bigint[], $10::bigint[])
) AS mine
CROSS JOIN "leasehold".complete_and_delete(mine.ids, mine.versions) AS done (id)
UNION ALL
SELECT id, version, type, priority, payload, progress, attempts, max_attempts, crash_count, run_at
FROM "leasehold".lease(
  $1::text, $2::bigint, $3::integer, $4::integer, $5::text[], $6::integer[], $7::bigint[], $8::bigint[])
