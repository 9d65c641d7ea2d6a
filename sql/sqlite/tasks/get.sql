-- One task.
--   ?1 id
-- Reply: its columns in the order of to_task_record() in lib/src/sqlite/sqlite_task_store.cpp.
SELECT id, version, type, state, priority, payload, progress, result, run_at, leased_by, lease_expiry,
       attempts, max_attempts, crash_count, unique_key, last_error, created_at, updated_at, finished_at
FROM task_queue
WHERE id = ?1
