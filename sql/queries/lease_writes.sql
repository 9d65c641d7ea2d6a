-- Writes of lease holders. Each names id, version and lease id, and changes nothing if the lease is stale.

-- name: extend
-- Renews leases (function extend() in migration 1).
--   $1 ids, sorted   $2 versions   $3 lease ids   $4 ids of tasks that were started since they were leased
--   $5 duration in ms
-- Reply: the ids whose lease was not stale, and whether it was renewed. Otherwise somebody has locked the row.
SELECT id, renewed
FROM "leasehold".extend($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint)

-- name: progress
-- Stores how far a task has come.
--   $1 id   $2 version   $3 lease id   $4 progress
-- Reply: the id, unless the lease was stale.
UPDATE "leasehold".tasks
SET progress = $4::json, updated_at = now()
WHERE id = $1::bigint AND version = $2::bigint AND lease_id = $3::bigint
RETURNING id

-- name: complete
-- Completes tasks (function complete() in migration 1).
--   $1 ids, sorted   $2 versions   $3 lease ids   $4 results, null for none   $5 whether they are kept
--   $6 how long to wait for a locked row, in ms; null to wait
-- Reply: the ids whose lease was not stale.
SELECT "leasehold".complete($1::bigint[], $2::bigint[], $3::bigint[], $4::json[], $5::boolean, $6::bigint)

-- name: fail
-- Ends failed attempts (function fail() in migration 1): a task is pending again after its delay, or dead if no
-- attempt is left.
--   $1 ids, sorted   $2 versions   $3 lease ids   $4 errors   $5 delays in ms, null for no retry
-- Reply: the ids whose lease was not stale, and whether the task is dead.
SELECT id, dead FROM "leasehold".fail($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[])

-- name: release
-- Gives leases back: the attempt does not count.
--   $1 ids, sorted   $2 versions   $3 lease ids   $4 delay in ms from now, null to keep run_at
--   $5 whether the attempts ended in order, so that the count of crashes begins anew
-- Reply: id and type of the tasks whose lease was not stale.
UPDATE "leasehold".tasks t
SET state = 'pending', version = t.version + 1, attempts = t.attempts - 1, leased_by = NULL,
    lease_expiry = NULL, started = false, updated_at = now(),
    crash_count = CASE WHEN $5::boolean THEN 0 ELSE t.crash_count END,
    suspect = t.suspect AND NOT $5::boolean,
    run_at = coalesce(now() + $4::bigint * interval '1 ms', t.run_at)
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS mine (id, version, lease)
WHERE t.id = mine.id AND t.version = mine.version AND t.lease_id = mine.lease
RETURNING t.id, t.type
