-- Adds tasks of which some have a unique key. A key must not be given twice.
-- Parameters and reply as for enqueue.sql.
--
-- Ids are in the order of the tasks; rows are written in the order of their keys, so that no two callers
-- can deadlock.
--
-- The update changes nothing. It is there because only DO UPDATE returns the row that is in the way,
-- even one that was committed after this statement began. Only an updated row has an xmax. It locks
-- that row until the transaction ends: a pending task waits for what it is meant to see.
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
