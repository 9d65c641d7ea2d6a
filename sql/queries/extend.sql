-- Renews leases (function extend() in migration 1).
--   $1 ids, sorted   $2 versions   $3 duration in ms
-- Reply: the ids whose lease was still the caller's.
SELECT "leasehold".extend($1::bigint[], $2::bigint[], $3::bigint)
