-- Leases that have run out.
--   ?1 now by the clock that judges leases   ?2 only ids above this one   ?3 at most so many
--   ?4 crashes after which a task is dead
-- Reply: id, type, the worker that lost it, its deadline, crashes with this one, whether it is dead now;
-- in order of id.
SELECT id, type, leased_by, lease_deadline, crash_count + 1,
       crash_count + 1 >= ?4 OR attempts >= max_attempts
FROM task_queue INDEXED BY task_leased
WHERE state = 'leased' AND lease_deadline < ?1 AND id > ?2
ORDER BY id
LIMIT ?3
