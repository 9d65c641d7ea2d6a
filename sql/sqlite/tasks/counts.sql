-- Counts tasks by type and state, reading at most ?1 + 1 index entries of each; leased ones are few and
-- counted all.
--   ?1 count up to this many
-- Reply: type, state, number. A number above ?1 means "more than ?1".
--
-- Types are found by jumping from one to the next in the index.
WITH RECURSIVE ready_types (type) AS (
    SELECT (SELECT min(type) FROM task_queue WHERE state = 'pending')
  UNION ALL
    SELECT (SELECT min(t.type) FROM task_queue t WHERE t.state = 'pending' AND t.type > ready_types.type)
    FROM ready_types WHERE ready_types.type IS NOT NULL
), finished_kinds (state, type) AS (
    SELECT s.state, (SELECT min(t.type) FROM task_queue t
                     WHERE t.finished_at IS NOT NULL AND t.state = s.state)
    FROM (SELECT 'cancelled' AS state UNION ALL SELECT 'completed' UNION ALL SELECT 'dead') AS s
  UNION ALL
    SELECT finished_kinds.state,
           (SELECT min(t.type) FROM task_queue t
            WHERE t.finished_at IS NOT NULL AND t.state = finished_kinds.state
              AND t.type > finished_kinds.type)
    FROM finished_kinds WHERE finished_kinds.type IS NOT NULL
)
SELECT ready_types.type, 'pending' AS state,
       (SELECT count(*) FROM (SELECT 1 FROM task_queue t
                              WHERE t.state = 'pending' AND t.type = ready_types.type LIMIT ?1 + 1))
FROM ready_types WHERE ready_types.type IS NOT NULL
UNION ALL
SELECT type, 'leased', count(*) FROM task_queue WHERE state = 'leased' GROUP BY type
UNION ALL
SELECT finished_kinds.type, finished_kinds.state,
       (SELECT count(*) FROM (SELECT 1 FROM task_queue t
                              WHERE t.finished_at IS NOT NULL AND t.state = finished_kinds.state
                                AND t.type = finished_kinds.type LIMIT ?1 + 1))
FROM finished_kinds WHERE finished_kinds.type IS NOT NULL
ORDER BY 1, 2
