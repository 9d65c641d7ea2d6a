-- Gives leases back as if they had never been: the attempt is not counted.
--   $1 ids, sorted   $2 versions   $3 delay in ms from now, null to keep run_at
-- Reply: id and type of those whose lease was still the caller's.
UPDATE "leasehold".tasks t
SET state = 'pending', version = t.version + 1, attempts = t.attempts - 1, leased_by = NULL,
    lease_expiry = NULL, updated_at = now(),
    run_at = coalesce(now() + $3::bigint * interval '1 ms', t.run_at)
FROM unnest($1::bigint[], $2::bigint[]) AS mine (id, version)
WHERE t.id = mine.id AND t.version = mine.version
RETURNING t.id, t.type
