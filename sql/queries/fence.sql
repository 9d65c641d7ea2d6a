-- Fencing tokens.

-- name: fence
-- Raises an error if a newer token was seen for the resource.
--   $1 resource   $2 token
SELECT "leasehold".fence($1::text, $2::bigint)
