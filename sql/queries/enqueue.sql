-- Adding tasks.

-- name: enqueue
-- Adds tasks without a unique key, in order.
--   $1 types   $2 payloads   $3 priorities   $4 run_at in microseconds or null   $5 delays in ms
--   $6 max_attempts   $7 unique keys (all null)   $8 channel to notify once, or null   $9 what to notify
-- Reply: one row for each task, in order: its id, and whether it existed before (never).
WITH added AS (
  INSERT INTO "leasehold".tasks (type, payload, priority, run_at, max_attempts, unique_key)
  SELECT type, payload, priority,
         coalesce(timestamptz 'epoch' + run_at * interval '1 us', now()) + delay * interval '1 ms',
         max_attempts, unique_key
  FROM unnest($1::text[], $2::json[], $3::integer[], $4::bigint[], $5::bigint[], $6::integer[],
              $7::text[])
       WITH ORDINALITY AS new (type, payload, priority, run_at, delay, max_attempts, unique_key, n)
  ORDER BY n
  RETURNING id
)
SELECT id, false, CASE WHEN $8::text IS NOT NULL THEN (SELECT pg_notify($8::text, $9::text)) END
FROM added

-- name: enqueue_unique
-- Adds tasks, some of which have a unique key. No key may occur twice. The function enqueue_unique() in
-- migration 1 says how.
-- Parameters and reply are those of enqueue.
SELECT id, existed, CASE WHEN $8::text IS NOT NULL THEN (SELECT pg_notify($8::text, $9::text)) END
FROM "leasehold".enqueue_unique(
  $1::text[], $2::json[], $3::integer[], $4::bigint[], $5::bigint[], $6::integer[], $7::text[])
