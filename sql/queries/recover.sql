-- Taking back expired leases.

-- name: recover
-- Takes back expired leases (function recover() in migration 1).
--   $1 only ids above this one   $2 limit   $3 number of crashes after which a task is dead
-- Reply: id, type, new state, the worker that lost the lease, ms since it expired, crashes.
SELECT id, type, state, worker, overdue_ms, crashes
FROM "leasehold".recover($1::bigint, $2::integer, $3::integer)
