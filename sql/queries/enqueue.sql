-- Adding tasks, and listening for new ones.

-- name: enqueue
-- Adds tasks without a unique key, in order.
--   $1 types   $2 payloads   $3 priorities   $4 run_at in µs or null   $5 delays in ms
--   $6 max_attempts   $7 unique keys (all null)   $8 channel to notify once, or null
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
SELECT id, false, CASE WHEN $8::text IS NOT NULL THEN (SELECT pg_notify($8::text, '')) END
FROM added

-- name: enqueue_unique
-- Adds tasks, some of which have a unique key. No key may occur twice.
-- Parameters and reply are those of enqueue.
--
-- Ids are assigned in the order of the tasks. Rows are written in the order of their keys, so that two
-- callers cannot deadlock.
--
-- The update changes nothing. It is needed because only DO UPDATE returns the conflicting row, even if that
-- row was committed after this statement began. Only updated rows have an xmax. The update locks the row until
-- the transaction ends, so that a pending task does not start before the caller has committed its work.
WITH new AS MATERIALIZED (
  SELECT nextval('"leasehold".tasks_id_seq') AS id, given.*
  FROM unnest($1::text[], $2::json[], $3::integer[], $4::bigint[], $5::bigint[], $6::integer[],
              $7::text[])
       WITH ORDINALITY AS given (type, payload, priority, run_at, delay, max_attempts, unique_key, n)
  ORDER BY n
), added AS (
  INSERT INTO "leasehold".tasks AS t (id, type, payload, priority, run_at, max_attempts, unique_key)
  SELECT id, type, payload, priority,
         coalesce(timestamptz 'epoch' + run_at * interval '1 us', now()) + delay * interval '1 ms',
         max_attempts, unique_key
  FROM new
  ORDER BY unique_key, n
  ON CONFLICT (unique_key) WHERE unique_key IS NOT NULL AND state IN ('pending', 'leased')
    DO UPDATE SET unique_key = excluded.unique_key
  RETURNING t.id, t.unique_key, t.xmax <> 0 AS existed
)
SELECT added.id, added.existed, CASE WHEN $8::text IS NOT NULL THEN (SELECT pg_notify($8::text, '')) END
FROM new
JOIN added ON CASE WHEN new.unique_key IS NULL THEN 'id ' || new.id ELSE 'key ' || new.unique_key END
            = CASE WHEN added.unique_key IS NULL THEN 'id ' || added.id ELSE 'key ' || added.unique_key END
ORDER BY new.n

-- name: listen
-- Subscribes to notifications of new tasks. The channel is named like the schema.
LISTEN "leasehold"
