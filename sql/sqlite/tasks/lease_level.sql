-- Leases the first pending tasks of a type and priority: those of due.sql, up to the last one of them.
-- For many this costs a third of lease.sql for each.
--   ?1 type   ?2 priority   ?3 ?4 run_at and id of the last one   ?5 worker   ?6 deadline   ?7 expiry
--   ?8 now
UPDATE task_queue
SET state = 'leased', version = version + 1, attempts = attempts + 1, leased_by = ?5,
    lease_deadline = ?6, lease_expiry = ?7, updated_at = ?8
WHERE id IN (SELECT id FROM task_queue INDEXED BY task_ready
             WHERE state = 'pending' AND type = ?1 AND priority = ?2 AND (run_at, id) <= (?3, ?4))
