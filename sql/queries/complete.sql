-- Completes tasks and keeps them (function complete() in migration 1).
--   $1 ids, sorted   $2 versions   $3 results, null for none
-- Reply: the ids whose lease was still the caller's.
SELECT "leasehold".complete($1::bigint[], $2::bigint[], $3::json[])
