-- Writes of lease holders. Each names id, version and lease id, and changes nothing if the lease is stale. Its
-- patience, in ms: for how long it waits for a row that somebody has locked, before it fails.

-- name: extend
-- Renews leases (function extend() in migration 1).
--   $1 ids, sorted   $2 versions   $3 lease ids   $4 whether the task was started   $5 duration in ms
-- Reply: id and lease id of the leases that were not stale, and whether they were renewed. Otherwise somebody has
-- locked the row.
SELECT id, lease, renewed
FROM "leasehold".extend($1::bigint[], $2::bigint[], $3::bigint[], $4::boolean[], $5::bigint)

-- name: progress
-- Stores how far a task has come (function note_progress() in migration 1).
--   $1 id   $2 version   $3 lease id   $4 progress   $5 patience
-- Reply: the id, unless the lease was stale.
SELECT "leasehold".note_progress($1::bigint, $2::bigint, $3::bigint, $4::json, $5::bigint)

-- name: complete
-- Completes tasks (function complete() in migration 1).
--   $1 ids, sorted   $2 versions   $3 lease ids   $4 results, null for none   $5 whether they are kept
--   $6 patience; null in a transaction of the caller
-- Reply: id and lease id of the leases that were not stale.
SELECT id, lease
FROM "leasehold".complete($1::bigint[], $2::bigint[], $3::bigint[], $4::json[], $5::boolean, $6::bigint)

-- name: fail
-- Ends failed attempts (function fail() in migration 1): a task is pending again after its delay, or dead if no
-- attempt is left.
--   $1 ids, sorted   $2 versions   $3 lease ids   $4 errors   $5 delays in ms, null for no retry   $6 patience
-- Reply: id and lease id of the leases that were not stale, and whether the task is dead.
SELECT id, lease, dead
FROM "leasehold".fail($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint)

-- name: release
-- Gives leases back: the attempt does not count (function release() in migration 1).
--   $1 ids, sorted   $2 versions   $3 lease ids   $4 delay in ms from now, null to keep run_at
--   $5 whether the attempts ended in order, so that the count of crashes begins anew   $6 patience
-- Reply: id and lease id of the leases that were not stale, and the type of the task.
SELECT id, lease, type
FROM "leasehold".release($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint, $5::boolean, $6::bigint)
