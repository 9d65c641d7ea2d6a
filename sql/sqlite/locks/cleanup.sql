-- Removing what nobody needs any more, some names at a time.

-- name: page_end
-- The last of the next names to look at, or NULL.
--   ?1 the last of those before, ?2 how many
SELECT max(name) FROM (SELECT name FROM lock_tokens WHERE name > ?1 ORDER BY name LIMIT ?2)

-- name: remove_expired
-- Removes the records that have lingered for long enough. Grants that were not confirmed are
-- left to unsettled_lines: their clients are evicted with them.
--   ?1 after this name, ?2 up to this one, ?3 now
DELETE FROM lock_claims WHERE name > ?1 AND name <= ?2 AND state = 'held' AND gone <= ?3

-- name: remove_tokens
-- Forgets tokens of locks that nobody uses. A token is at least the time of day of its
-- grant in µs: so the next one is larger even if this one is forgotten.
-- ?1 after this name, ?2 up to this one, ?3 tokens of before this time
DELETE FROM lock_tokens
WHERE name > ?1 AND name <= ?2 AND token < ?3
  AND NOT EXISTS (SELECT 1 FROM lock_claims WHERE lock_claims.name = lock_tokens.name)

-- name: unsettled_lines
-- Locks that some wait for and nobody has, and those with a grant that was not confirmed in
-- time.
--   ?1 after this name, ?2 up to this one, ?3 now
SELECT DISTINCT name FROM lock_claims AS waiter
WHERE name > ?1 AND name <= ?2 AND state = 'waiting'
  AND NOT EXISTS (SELECT 1 FROM lock_claims WHERE name = waiter.name AND state < 'waiting')
UNION
SELECT name FROM lock_claims WHERE name > ?1 AND name <= ?2 AND state = 'granted' AND gone <= ?3

-- name: new_boot
-- Every lease of an earlier start of the machine has ended, as its holder has. What was held
-- exclusively is remembered for as long as any record of a vanished holder, from now on.
DELETE FROM lock_messages;
DELETE FROM lock_claims WHERE state <> 'held' OR kind <> 'x';
UPDATE lock_claims SET granted = :now - (ends - granted), gone = :now + linger, ends = :now;
UPDATE lock_tokens SET permits = NULL, place = NULL;
