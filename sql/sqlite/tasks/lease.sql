-- Leases a pending task.
--   ?1 id   ?2 worker   ?3 deadline   ?4 expiry   ?5 now
-- Without RETURNING, which costs twice as much as all the rest: due.sql has told what is to be known.
UPDATE task_queue
SET state = 'leased', version = version + 1, attempts = attempts + 1, leased_by = ?2,
    lease_deadline = ?3, lease_expiry = ?4, updated_at = ?5
WHERE id = ?1
