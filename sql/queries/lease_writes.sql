-- Writes of lease holders. Each names id and version, and changes nothing if the lease is stale.

-- name: extend
-- Renews leases (function extend() in migration 1).
--   $1 ids, sorted   $2 versions   $3 duration in ms
-- Reply: the ids whose lease was not stale.
SELECT "leasehold".extend($1::bigint[], $2::bigint[], $3::bigint)

-- name: progress
-- Stores how far a task has come.
--   $1 id   $2 version   $3 progress
-- Reply: the id, unless the lease was stale.
UPDATE "leasehold".tasks
SET progress = $3::json, updated_at = now()
WHERE id = $1::bigint AND version = $2::bigint
RETURNING id

-- name: complete
-- Completes tasks and keeps them (function complete() in migration 1).
--   $1 ids, sorted   $2 versions   $3 results, null for none
-- Reply: the ids whose lease was not stale.
SELECT "leasehold".complete($1::bigint[], $2::bigint[], $3::json[])

-- name: complete_and_delete
-- Completes tasks by deleting them (function complete_and_delete() in migration 1).
--   $1 ids, sorted   $2 versions
-- Reply: the ids whose lease was not stale.
SELECT "leasehold".complete_and_delete($1::bigint[], $2::bigint[])

-- name: fail
-- Ends a failed attempt: the task is pending again after the delay, or dead if no attempt is left.
--   $1 id   $2 version   $3 error   $4 delay in ms, null for no retry
-- Reply: the new state, unless the lease was stale.
UPDATE "leasehold".tasks
SET state = CASE WHEN $4::bigint IS NULL OR attempts >= max_attempts THEN 'dead' ELSE 'pending' END,
    finished_at = CASE WHEN $4::bigint IS NULL OR attempts >= max_attempts THEN now() END,
    run_at = now() + coalesce($4::bigint, 0) * interval '1 ms',
    version = version + 1, leased_by = NULL, lease_expiry = NULL, last_error = $3::text,
    updated_at = now()
WHERE id = $1::bigint AND version = $2::bigint
RETURNING state

-- name: release
-- Gives leases back as if the tasks had never been leased: the attempt does not count.
--   $1 ids, sorted   $2 versions   $3 delay in ms from now, null to keep run_at
-- Reply: id and type of the tasks whose lease was not stale.
UPDATE "leasehold".tasks t
SET state = 'pending', version = t.version + 1, attempts = t.attempts - 1, leased_by = NULL,
    lease_expiry = NULL, updated_at = now(),
    run_at = coalesce(now() + $3::bigint * interval '1 ms', t.run_at)
FROM unnest($1::bigint[], $2::bigint[]) AS mine (id, version)
WHERE t.id = mine.id AND t.version = mine.version
RETURNING t.id, t.type
