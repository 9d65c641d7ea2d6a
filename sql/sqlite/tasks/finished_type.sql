-- The next type that has tasks which finished in a state: that is the order of the index task_finished.
--   ?1 state   ?2 only types behind this one
-- Reply: the type, or null.
SELECT min(type) FROM task_queue WHERE finished_at IS NOT NULL AND state = ?1 AND type > ?2
