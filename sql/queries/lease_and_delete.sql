-- complete_and_delete.sql and lease.sql in one statement. A lease must not wait for a row that somebody has
-- locked: such a task is left as it is, as if its lease were not the caller's, who has to ask again.
--   $1 to $8 as in lease.sql   $9 and $10 as $1 and $2 in complete_and_delete.sql
-- Reply: the ids that were completed, with nulls beside them; then the tasks that were leased.
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
