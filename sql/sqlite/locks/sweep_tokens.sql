-- sweep_tokens: forgets tokens of locks that nobody uses. A token is at least the time of day of its
-- grant in µs: so the next one is larger even if this one is forgotten.
-- ?1 after this name, ?2 up to this one, ?3 tokens of before this time
DELETE FROM lock_tokens
WHERE name > ?1 AND name <= ?2 AND token < ?3
  AND NOT EXISTS (SELECT 1 FROM lock_claims WHERE lock_claims.name = lock_tokens.name)
