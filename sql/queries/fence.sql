-- Fencing tokens.

-- name: fence
-- Refuses a token older than one that was seen for the resource.
--   $1 resource   $2 token
SELECT "leasehold".fence($1::text, $2::bigint)
