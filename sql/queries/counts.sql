-- Counts tasks by type and state (function count_tasks() in migration 1 says how).
--   $1 count up to this many
-- Reply: type, state, number. A number above $1 means "more than $1".
SELECT of_type, in_state, number FROM "leasehold".count_tasks($1::bigint)
