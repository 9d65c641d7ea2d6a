-- The waiters of a lock.

-- name: join
-- Joins the line.
--   ?1 … ?11 as in hold, ?12 kind, ?13 permits, ?14 priority, ?15 place, ?16 score
INSERT INTO lock_parties (name, state, owner, kind, client, runner, incarnation, about, metadata, ttl, every,
                         linger, granted, ends, gone, permits, priority, place, score)
VALUES (?1, 'waiting', ?2, ?12, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 0, 0, ?13, ?14, ?15, ?16)

-- name: first_waiter
-- The next waiter.
--   ?1 name
SELECT owner, kind, client, permits, score
FROM lock_parties WHERE name = ?1 AND state = 'waiting' ORDER BY score, owner LIMIT 1

-- name: waiter
-- The place of a waiter.
--   ?1 name, ?2 owner
SELECT place FROM lock_parties WHERE name = ?1 AND state = 'waiting' AND owner = ?2

-- name: waiters
-- All waiters, the next one first.
--   ?1 name
SELECT runner, about, kind, priority, granted
FROM lock_parties WHERE name = ?1 AND state = 'waiting' ORDER BY score, owner

-- name: waiter_count
--   ?1 name
SELECT count(*) FROM lock_parties WHERE name = ?1 AND state = 'waiting'

-- name: remove_waiter
--   ?1 name, ?2 owner
DELETE FROM lock_parties WHERE name = ?1 AND state = 'waiting' AND owner = ?2

-- name: last_seen
-- When a client was last seen in a line.
--   ?1 name, ?2 client
SELECT seen FROM lock_clients WHERE name = ?1 AND client = ?2

-- name: show
--   ?1 name, ?2 client, ?3 now
INSERT INTO lock_clients (name, client, seen) VALUES (?1, ?2, ?3)
ON CONFLICT (name, client) DO UPDATE SET seen = ?3

-- name: client_count
--   ?1 name
SELECT count(*) FROM lock_clients WHERE name = ?1

-- name: other_client
-- One that is not this one.
--   ?1 name, ?2 client
SELECT client FROM lock_clients WHERE name = ?1 AND client <> ?2 LIMIT 1

-- name: forget_client
--   ?1 name, ?2 client
DELETE FROM lock_clients WHERE name = ?1 AND client = ?2

-- name: forget_unseen
--   ?1 name, ?2 since when they were not seen
DELETE FROM lock_clients WHERE name = ?1 AND seen <= ?2

-- name: forget_clients
-- Removes all of them if nobody waits.
--   ?1 name
DELETE FROM lock_clients
WHERE name = ?1 AND NOT EXISTS (SELECT 1 FROM lock_parties WHERE name = ?1 AND state = 'waiting')
