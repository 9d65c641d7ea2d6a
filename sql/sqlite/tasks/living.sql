-- The living task that has a unique key.
--   ?1 unique key
-- Reply: its id.
SELECT id FROM task_queue
WHERE unique_key = ?1 AND unique_key IS NOT NULL AND state IN ('pending', 'leased')
