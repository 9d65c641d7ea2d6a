-- forget_messages: with each that is written the two oldest go if they are old enough. ?1 before when
DELETE FROM lock_messages
WHERE id IN (SELECT id FROM lock_messages ORDER BY id LIMIT 2) AND at < ?1
