-- Leases tasks whose ids follow each other, all of which due.sql has read.
--   ?1 first id   ?2 last id   ?3 worker   ?4 deadline   ?5 expiry   ?6 now
UPDATE task_queue
SET state = 'leased', version = version + 1, attempts = attempts + 1, leased_by = ?3,
    lease_deadline = ?4, lease_expiry = ?5, updated_at = ?6
WHERE id BETWEEN ?1 AND ?2
