-- Leases the first pending tasks of a type and priority, which due.sql has read.
-- For many this costs a third of lease.sql for each.
--   ?1 type   ?2 priority   ?3 how many   ?4 worker   ?5 deadline   ?6 expiry   ?7 now
UPDATE task_queue
SET state = 'leased', version = version + 1, attempts = attempts + 1, leased_by = ?4,
    lease_deadline = ?5, lease_expiry = ?6, updated_at = ?7
WHERE id IN (SELECT id FROM task_queue INDEXED BY task_ready
             WHERE state = 'pending' AND type = ?1 AND priority = ?2
             ORDER BY run_at, id LIMIT ?3)
