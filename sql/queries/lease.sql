-- Leases tasks that are due (function lease() in migration 1 says how).
--   $1 worker   $2 duration in ms   $3 most of one type   $4 most in all   $5 types
--   $6 $7 $8 the floor of each type: rank, run_at in µs, id
-- Reply: the tasks, their columns in the order of to_leased_task() in lib/src/postgres/rows.cpp.
SELECT id, version, type, priority, payload, progress, attempts, max_attempts, crash_count, run_at
FROM "leasehold".lease(
  $1::text, $2::bigint, $3::integer, $4::integer, $5::text[], $6::integer[], $7::bigint[], $8::bigint[])
