-- free_token: a row with the latest token, or NULL, if nobody has or waits for the lock; else none. ?1 name
SELECT (SELECT token FROM lock_tokens WHERE name = ?1)
WHERE NOT EXISTS (SELECT 1 FROM lock_claims WHERE name = ?1)
