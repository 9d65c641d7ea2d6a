-- What is remembered about a name: its latest token, its permits, and the latest place in its line.

-- name: token
-- All of it.
--   ?1 name
SELECT token, permits, place FROM lock_tokens WHERE name = ?1

-- name: free_token
-- One row with the latest token, or NULL, if nobody has the lock or waits for it; otherwise no row.
--   ?1 name
SELECT (SELECT token FROM lock_tokens WHERE name = ?1)
WHERE NOT EXISTS (SELECT 1 FROM lock_parties WHERE name = ?1)

-- name: first_token
-- Remembers the token of a new name.
--   ?1 name, ?2 token
INSERT INTO lock_tokens (name, token) VALUES (?1, ?2)

-- name: keep_token
-- Remembers the token of a known name.
--   ?1 name, ?2 token
UPDATE lock_tokens SET token = max(token, ?2) WHERE name = ?1

-- name: set_permits
--   ?1 name, ?2 permits
INSERT INTO lock_tokens (name, permits) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET permits = ?2

-- name: set_place
--   ?1 name, ?2 the latest place in its line
INSERT INTO lock_tokens (name, place) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET place = ?2

-- name: tidy
-- Removes what only shared holders and waiters needed.
--   ?1 name
UPDATE lock_tokens SET permits = NULL, place = NULL
WHERE name = ?1 AND (permits IS NOT NULL OR place IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM lock_parties
                  WHERE name = ?1 AND (state <> 'held' OR kind <> 'x'))
