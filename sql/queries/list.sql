-- A page of tasks in order of id.
--   $1 type or null   $2 state or null   $3 worker or null   $4 ids above this one   $5 at most so many
-- Reply: as get.sql.
SELECT id, version, type, state, priority, payload, progress, result,
       (extract(epoch FROM run_at) * 1000000)::bigint,
       leased_by, (extract(epoch FROM lease_expiry) * 1000000)::bigint,
       attempts, max_attempts, crash_count, unique_key, last_error,
       (extract(epoch FROM created_at) * 1000000)::bigint,
       (extract(epoch FROM updated_at) * 1000000)::bigint,
       (extract(epoch FROM finished_at) * 1000000)::bigint
FROM "leasehold".tasks
WHERE ($1::text IS NULL OR type = $1::text)
  AND ($2::text IS NULL OR state = $2::text)
  AND ($3::text IS NULL OR leased_by = $3::text)
  AND id > $4::bigint
ORDER BY id
LIMIT $5::integer
