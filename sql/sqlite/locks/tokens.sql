-- What is remembered of a name: its last fencing token, permits, and the last place in its line.

-- name: token
-- What is remembered of a name.
--   ?1 name
SELECT token, permits, place FROM lock_tokens WHERE name = ?1

-- name: free_token
-- A row with the latest token, or NULL, if nobody has or waits for the lock; else none.
--   ?1 name
SELECT (SELECT token FROM lock_tokens WHERE name = ?1)
WHERE NOT EXISTS (SELECT 1 FROM lock_claims WHERE name = ?1)

-- name: first_token
-- The same for a new name.
--   ?1 name, ?2 token
INSERT INTO lock_tokens (name, token) VALUES (?1, ?2)

-- name: keep_token
-- Makes sure that a token is remembered of a known name.
--   ?1 name, ?2 token
UPDATE lock_tokens SET token = max(token, ?2) WHERE name = ?1

-- name: set_permits
--   ?1 name, ?2 permits
INSERT INTO lock_tokens (name, permits) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET permits = ?2

-- name: set_place
--   ?1 name, ?2 the latest place in its line
INSERT INTO lock_tokens (name, place) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET place = ?2

-- name: tidy
-- Forgets what only those who share a lock or wait for it needed.
--   ?1 name
UPDATE lock_tokens SET permits = NULL, place = NULL
WHERE name = ?1 AND (permits IS NOT NULL OR place IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM lock_claims
                  WHERE name = ?1 AND (state <> 'held' OR kind <> 'x'))
