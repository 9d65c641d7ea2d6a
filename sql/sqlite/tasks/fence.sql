-- Fencing tokens.

-- name: fence
-- Stores a token, unless a newer one was seen for the resource.
--   ?1 resource   ?2 token   ?3 now
INSERT INTO task_fences (resource, token, seen_at) VALUES (?1, ?2, ?3)
ON CONFLICT (resource) DO UPDATE SET token = excluded.token, seen_at = excluded.seen_at
  WHERE token < excluded.token

-- name: fence_seen
-- The newest token that was seen for a resource.
--   ?1 resource
SELECT token FROM task_fences WHERE resource = ?1
