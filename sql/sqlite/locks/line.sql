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
SELECT owner, kind, client, permits, score, ends, renewals
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

-- name: sign_of_life
-- Records how often a waiter was asked for a sign of life since its last one, and until when it has time
-- to answer or need not be asked.
--   ?1 name, ?2 owner, ?3 times, ?4 end
UPDATE lock_parties SET renewals = ?3, ends = ?4, version = version + 1
WHERE name = ?1 AND state = 'waiting' AND owner = ?2

-- name: remove_waiter
--   ?1 name, ?2 owner
DELETE FROM lock_parties WHERE name = ?1 AND state = 'waiting' AND owner = ?2

-- name: evict
-- Removes all waiters of a client from a line.
--   ?1 name, ?2 client
DELETE FROM lock_parties WHERE name = ?1 AND state = 'waiting' AND client = ?2
