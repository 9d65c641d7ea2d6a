-- Renews a lease.
--   ?1 id   ?2 version   ?3 deadline   ?4 expiry   ?5 now
-- Changes nothing if the lease is not the caller's any more. So do all that name a version.
UPDATE task_queue SET lease_deadline = ?3, lease_expiry = ?4, updated_at = ?5
WHERE id = ?1 AND version = ?2
