-- Stores how far a task has come.
--   $1 id   $2 version   $3 progress
-- Reply: the id if the lease was still the caller's.
UPDATE "leasehold".tasks
SET progress = $3::json, updated_at = now()
WHERE id = $1::bigint AND version = $2::bigint
RETURNING id
