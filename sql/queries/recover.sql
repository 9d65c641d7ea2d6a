-- Taking back expired leases.

-- name: recover
-- Takes back expired leases (function recover() in migration 1).
--   $1 $2 only leases after this one: when it began, in microseconds since 1970; its task
--   $3 limit   $4 limit of bytes
--   $5 number of crashes after which a task is dead   $6 patience, in ms
-- Reply: id, type, new state, the worker that lost the lease, ms since it expired, crashes, when the lease began in
-- microseconds since 1970.
SELECT id, type, state, worker, overdue_ms, crashes, leased_at
FROM "leasehold".recover($1::bigint, $2::bigint, $3::integer, $4::bigint, $5::integer, $6::bigint)
