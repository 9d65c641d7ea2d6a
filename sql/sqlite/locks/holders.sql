-- Grants and offers.

-- name: holders
-- All who hold a lock, have an offer, or have expired with it.
--   ?1 name
SELECT owner, state, kind, client, runner, incarnation, about, metadata, ttl, every, granted, ends, gone,
       renewals, token
FROM lock_parties WHERE name = ?1 AND state < 'waiting'

-- name: hold
-- Writes a grant.
--   ?1 name, ?2 owner, ?3 client, ?4 runner, ?5 incarnation, ?6 about, ?7 metadata, ?8 ttl,
-- ?9 every, ?10 linger, ?11 now, ?12 token, ?13 kind, ?14 permits
INSERT INTO lock_parties (name, state, owner, kind, client, runner, incarnation, about, metadata, ttl, every,
                         linger, granted, ends, gone, token, permits)
VALUES (?1, 'held', ?2, ?13, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11 + ?8, ?11 + ?8 + ?10, ?12, ?14)

-- name: grant
-- Offers the lock to a waiter, which has to confirm before the end.
-- ?1 name, ?2 owner, ?3 now, ?4 end
UPDATE lock_parties SET state = 'granted', granted = ?3, ends = ?4, gone = ?4, renewals = 0, version = version + 1
WHERE name = ?1 AND state = 'waiting' AND owner = ?2

-- name: renew
-- Prolongs an exclusive grant, unless it has ended or somebody else has the lock now.
--   ?1 name, ?2 owner, ?3 now, ?4 ttl, ?5 every,
-- ?6 linger, ?7 renewals, ?8 metadata
UPDATE lock_parties SET ends = ?3 + ?4, gone = ?3 + ?4 + ?6, ttl = ?4, every = ?5, linger = ?6, renewals = ?7,
                       metadata = ?8, version = version + 1
WHERE name = ?1 AND state = 'held' AND owner = ?2 AND kind = 'x' AND ends > ?3
  AND NOT EXISTS (SELECT 1 FROM lock_parties WHERE name = ?1 AND state < 'waiting' AND owner <> ?2)

-- name: renew_shared
-- Prolongs a shared grant, unless it has ended. Values as in renew.
UPDATE lock_parties SET ends = ?3 + ?4, gone = ?3 + ?4 + ?6, ttl = ?4, every = ?5, linger = ?6, renewals = ?7,
                       metadata = ?8, version = version + 1
WHERE name = ?1 AND state = 'held' AND owner = ?2 AND kind <> 'x' AND ends > ?3

-- name: downgrade
-- Turns an exclusive grant into a shared one. Values as in renew.
UPDATE lock_parties SET kind = 's', ends = ?3 + ?4, gone = ?3 + ?4 + ?6, ttl = ?4, every = ?5, linger = ?6,
                       renewals = ?7, metadata = ?8, version = version + 1
WHERE name = ?1 AND state = 'held' AND owner = ?2

-- name: release_alone
-- Gives back an exclusive lock that nobody waits for.
--   ?1 name, ?2 owner
DELETE FROM lock_parties
WHERE name = ?1 AND state = 'held' AND owner = ?2 AND kind = 'x'
  AND NOT EXISTS (SELECT 1 FROM lock_parties WHERE name = ?1 AND owner <> ?2)

-- name: remove_holder
--   ?1 name, ?2 owner
DELETE FROM lock_parties WHERE name = ?1 AND state < 'waiting' AND owner = ?2

-- name: names
-- A page of the locks that somebody holds or has expired with.
--   ?1 the last name of the page before,
-- ?2 pattern, ?3 how many
SELECT DISTINCT name FROM lock_parties WHERE name > ?1 AND state < 'waiting' AND name GLOB ?2
ORDER BY name LIMIT ?3
