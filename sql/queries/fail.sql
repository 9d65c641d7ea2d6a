-- A failed attempt: pending again after the delay, or dead if no attempt is left.
--   $1 id   $2 version   $3 error   $4 delay in ms, null for never again
-- Reply: the new state if the lease was still the caller's.
UPDATE "leasehold".tasks
SET state = CASE WHEN $4::bigint IS NULL OR attempts >= max_attempts THEN 'dead' ELSE 'pending' END,
    finished_at = CASE WHEN $4::bigint IS NULL OR attempts >= max_attempts THEN now() END,
    run_at = now() + coalesce($4::bigint, 0) * interval '1 ms',
    version = version + 1, leased_by = NULL, lease_expiry = NULL, last_error = $3::text,
    updated_at = now()
WHERE id = $1::bigint AND version = $2::bigint
RETURNING state
