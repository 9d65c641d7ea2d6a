-- Walks over the pending tasks of a type in the order in which they are leased.
--   ?1 type   ?2 only priorities below this one
-- Reply: what Claim in lib/src/sqlite/sqlite_task_store.cpp reads. From the first one that is not due on,
-- the rest of its priority is not due either: who reads then goes on below that priority.
SELECT id, priority, run_at, version, payload, progress, attempts, max_attempts, crash_count
FROM task_queue INDEXED BY task_ready
WHERE state = 'pending' AND type = ?1 AND priority < ?2
ORDER BY priority DESC, run_at, id
