-- Messages between the processes that share a file.

-- name: messages
--   ?1 the latest id that was read, ?2 client
SELECT id, message FROM lock_messages WHERE id > ?1 AND client = ?2 ORDER BY id

-- name: newest_message
-- The id of the newest message; NULL if there is none.
SELECT max(id) FROM lock_messages

-- name: post
-- Sends a message to a client of another process.
--   ?1 now, ?2 client, ?3 message
INSERT INTO lock_messages (at, client, message) VALUES (?1, ?2, ?3)

-- name: forget_messages
-- Removes the two oldest messages if they are old enough. Run with each message that is written.
--   ?1 before when
DELETE FROM lock_messages
WHERE id IN (SELECT id FROM lock_messages ORDER BY id LIMIT 2) AND at < ?1
