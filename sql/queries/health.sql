-- How a queue fares: the oldest task that is due, the oldest lease that has run out, and its rows.
-- Reply: ms since the first was due or null, ms since the second ran out or null, live rows, dead rows.
--
-- `heads` jumps in the index tasks_ready from each type and priority to the next: what it costs depends
-- on how many of those are in use, not on the number of tasks.
WITH RECURSIVE heads (type, rank, run_at) AS (
    (SELECT type, -priority, run_at
     FROM "leasehold".tasks
     WHERE state = 'pending'
     ORDER BY type, -priority, run_at, id
     LIMIT 1)
  UNION ALL
    SELECT following.type, following.rank, following.run_at
    FROM heads
    CROSS JOIN LATERAL (
      SELECT t.type, -t.priority AS rank, t.run_at
      FROM "leasehold".tasks t
      WHERE t.state = 'pending' AND (t.type, -t.priority) > (heads.type, heads.rank)
      ORDER BY t.type, -t.priority, t.run_at, t.id
      LIMIT 1
    ) AS following
)
SELECT (SELECT (extract(epoch FROM now() - min(run_at)) * 1000)::bigint
        FROM heads WHERE run_at <= now()),
       (SELECT (extract(epoch FROM now() - min(lease_expiry)) * 1000)::bigint
        FROM "leasehold".tasks WHERE state = 'leased' AND lease_expiry < now()),
       pg_stat_get_live_tuples('"leasehold".tasks'::regclass),
       pg_stat_get_dead_tuples('"leasehold".tasks'::regclass)
