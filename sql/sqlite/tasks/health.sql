-- How a queue fares: the task that is due longest, the lease that ran out first, and the rows.
--   ?1 now   ?2 now by the clock that judges leases   ?3 count rows up to this many
-- Reply: run_at of the first or null, lease_deadline of the second or null, rows.
--
-- `heads` jumps in the index task_ready from each type and priority to the next: what it costs depends on
-- how many of those are in use, not on the number of tasks.
WITH RECURSIVE heads (id, type, priority, run_at) AS (
    SELECT * FROM (SELECT id, type, priority, run_at FROM task_queue
                   WHERE state = 'pending' ORDER BY type, priority DESC, run_at, id LIMIT 1)
  UNION ALL
    SELECT t.id, t.type, t.priority, t.run_at
    FROM heads
    JOIN task_queue t ON t.id = coalesce(
      (SELECT n.id FROM task_queue n
       WHERE n.state = 'pending' AND n.type = heads.type AND n.priority < heads.priority
       ORDER BY n.priority DESC, n.run_at, n.id LIMIT 1),
      (SELECT n.id FROM task_queue n
       WHERE n.state = 'pending' AND n.type > heads.type
       ORDER BY n.type, n.priority DESC, n.run_at, n.id LIMIT 1))
)
SELECT (SELECT min(run_at) FROM heads WHERE run_at <= ?1),
       (SELECT min(lease_deadline) FROM task_queue WHERE state = 'leased' AND lease_deadline < ?2),
       (SELECT count(*) FROM (SELECT 1 FROM task_queue LIMIT ?3))
