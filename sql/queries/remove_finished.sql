-- Deletes one chunk of the tasks that finished in a state long enough ago.
--   $1 state   $2 age in ms   $3 at most so many
-- Reply: how many were deleted.
--
-- Goes type by type, because that is the order of the index tasks_finished.
WITH RECURSIVE types (type) AS (
    (SELECT type FROM "leasehold".tasks
     WHERE finished_at IS NOT NULL AND state = $1::text ORDER BY type LIMIT 1)
  UNION ALL
    SELECT (SELECT t.type FROM "leasehold".tasks t
            WHERE t.finished_at IS NOT NULL AND t.state = $1::text AND t.type > types.type
            ORDER BY t.type LIMIT 1)
    FROM types WHERE types.type IS NOT NULL
), old AS MATERIALIZED (
  SELECT found.id
  FROM types
  CROSS JOIN LATERAL (
    SELECT t.id FROM "leasehold".tasks t
    WHERE t.state = $1::text AND t.type = types.type
      AND t.finished_at < now() - $2::bigint * interval '1 ms'
    ORDER BY t.finished_at
    LIMIT $3::integer
    FOR UPDATE SKIP LOCKED
  ) AS found
  LIMIT $3::integer
), deleted AS (
  DELETE FROM "leasehold".tasks t USING old WHERE t.id = old.id RETURNING 1
)
SELECT count(*) FROM deleted
