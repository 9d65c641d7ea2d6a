-- Completes tasks by deleting them (function complete_and_delete() in migration 1).
--   $1 ids, sorted   $2 versions
-- Reply: the ids whose lease was still the caller's.
SELECT "leasehold".complete_and_delete($1::bigint[], $2::bigint[])
