-- One task.
--   $1 id
-- Reply: its columns in the order of to_task_record() in lib/src/postgres/rows.cpp; times in µs since 1970.
SELECT id, version, type, state, priority, payload, progress, result,
       (extract(epoch FROM run_at) * 1000000)::bigint,
       leased_by, (extract(epoch FROM lease_expiry) * 1000000)::bigint,
       attempts, max_attempts, crash_count, unique_key, last_error,
       (extract(epoch FROM created_at) * 1000000)::bigint,
       (extract(epoch FROM updated_at) * 1000000)::bigint,
       (extract(epoch FROM finished_at) * 1000000)::bigint
FROM "leasehold".tasks
WHERE id = $1::bigint
