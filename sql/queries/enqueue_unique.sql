-- Adds tasks of which some have a unique key, in order. A key must not be given twice.
-- Parameters and reply as for enqueue.sql.
--
-- The update changes nothing. It is there because only DO UPDATE returns the row that is in the way,
-- even one that was committed after this statement began. Only an updated row has an xmax.
WITH added AS (
  INSERT INTO "leasehold".tasks AS t (type, payload, priority, run_at, max_attempts, unique_key)
  SELECT type, payload, priority,
         coalesce(timestamptz 'epoch' + run_at * interval '1 us', now()) + delay * interval '1 ms',
         max_attempts, unique_key
  FROM unnest($1::text[], $2::json[], $3::integer[], $4::bigint[], $5::bigint[], $6::integer[],
              $7::text[])
       WITH ORDINALITY AS new (type, payload, priority, run_at, delay, max_attempts, unique_key, n)
  ORDER BY n
  ON CONFLICT (unique_key) WHERE unique_key IS NOT NULL AND state IN ('pending', 'leased')
    DO UPDATE SET unique_key = excluded.unique_key
  RETURNING t.id, t.xmax <> 0 AS existed
)
SELECT id, existed, CASE WHEN $8::text IS NOT NULL THEN (SELECT pg_notify($8::text, '')) END
FROM added
