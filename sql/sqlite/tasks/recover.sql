-- Taking back expired leases.

-- name: any_expired
-- Whether a lease has expired.
--   ?1 now by the clock that judges leases
SELECT EXISTS (SELECT 1 FROM task_queue INDEXED BY task_leased WHERE state = 'leased' AND lease_deadline < ?1)

-- name: expired
-- Expired leases. It was a crash if the task had been started. Otherwise its worker had only leased it ahead.
--   ?1 now by the clock that judges leases   ?2 only ids above this one   ?3 limit
--   ?4 number of crashes after which a task is dead
-- Reply: id, type, the worker that lost the lease, its deadline, crashes including this one, whether the task is dead
-- now; in order of id.
SELECT id, type, leased_by, lease_deadline, crash_count + started,
       started AND (crash_count + 1 >= ?4 OR attempts >= max_attempts)
FROM task_queue INDEXED BY task_leased
WHERE state = 'leased' AND lease_deadline < ?1 AND id > ?2
ORDER BY id
LIMIT ?3

-- name: recover
-- Takes back an expired lease. The task is pending again, or dead after too many crashes or attempts. If it had not
-- been started, the attempt does not count.
--   ?1 id   ?2 whether the task is dead   ?3 now
UPDATE task_queue
SET state = CASE WHEN ?2 THEN 'dead' ELSE 'pending' END, finished_at = CASE WHEN ?2 THEN ?3 END,
    leased_by = CASE WHEN ?2 THEN leased_by END, version = version + 1, suspect = 1,
    crash_count = crash_count + started, attempts = attempts - (1 - started), started = 0, lease_deadline = NULL,
    lease_expiry = NULL, last_error = 'the lease of ' || leased_by || ' expired', updated_at = ?3
WHERE id = ?1

-- name: note_recovered
-- Adds to the numbers of leases that were taken back.
--   ?1 tasks that are pending again   ?2 tasks that are dead
UPDATE task_recovered SET requeued = requeued + ?1, dead = dead + ?2

-- name: new_boot
-- Ends all leases after a restart of the machine, which has ended all their holders.
UPDATE task_queue SET lease_deadline = 0 WHERE state = 'leased'
