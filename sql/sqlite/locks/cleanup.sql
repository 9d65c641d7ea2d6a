-- Removes what nobody needs any more, a page of names at a time.

-- name: page_end
-- The last name of the next page, or NULL.
--   ?1 the last name of the page before, ?2 how many names
SELECT max(name) FROM (SELECT name FROM lock_tokens WHERE name > ?1 ORDER BY name LIMIT ?2)

-- name: remove_expired
-- Removes the records that have lingered for long enough. Offers are left to unsettled_lines, because
-- they are offered to the next waiter then.
--   ?1 after this name, ?2 up to this one, ?3 now
DELETE FROM lock_parties WHERE name > ?1 AND name <= ?2 AND state = 'held' AND gone <= ?3

-- name: remove_tokens
-- Removes the tokens of locks that nobody uses. A token is at least the time of day of its grant in µs,
-- so that the next one is larger even without this row.
-- ?1 after this name, ?2 up to this one, ?3 tokens of before this time
DELETE FROM lock_tokens
WHERE name > ?1 AND name <= ?2 AND token < ?3
  AND NOT EXISTS (SELECT 1 FROM lock_parties WHERE lock_parties.name = lock_tokens.name)

-- name: unsettled_lines
-- Locks that have waiters but no holder, and those with an offer that was not confirmed in time.
--   ?1 after this name, ?2 up to this one, ?3 now
SELECT DISTINCT name FROM lock_parties AS waiter
WHERE name > ?1 AND name <= ?2 AND state = 'waiting'
  AND NOT EXISTS (SELECT 1 FROM lock_parties WHERE name = waiter.name AND state < 'waiting')
UNION
SELECT name FROM lock_parties WHERE name > ?1 AND name <= ?2 AND state = 'granted' AND gone <= ?3

-- name: new_boot
-- Ends all grants of an earlier boot, because their holders ended with it. From now on the records of
-- exclusive holders linger as those of any holder that has expired.
DELETE FROM lock_messages;
DELETE FROM lock_clients;
DELETE FROM lock_parties WHERE state <> 'held' OR kind <> 'x';
UPDATE lock_parties SET granted = :now - (ends - granted), gone = :now + linger, ends = :now;
UPDATE lock_tokens SET permits = NULL, place = NULL;
