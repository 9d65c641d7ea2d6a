-- Takes back an expired lease: pending again, or dead if the task has crashed or been tried too often.
--   ?1 id   ?2 whether it is dead   ?3 now
UPDATE task_queue
SET state = CASE WHEN ?2 THEN 'dead' ELSE 'pending' END, finished_at = CASE WHEN ?2 THEN ?3 END,
    version = version + 1, crash_count = crash_count + 1, leased_by = NULL, lease_deadline = NULL,
    lease_expiry = NULL, last_error = 'the lease of ' || leased_by || ' expired', updated_at = ?3
WHERE id = ?1
