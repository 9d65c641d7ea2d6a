-- forgotten_lines: locks that some wait for and nobody has. ?1 after this name, ?2 up to this one
SELECT DISTINCT name FROM lock_claims AS waiter
WHERE name > ?1 AND name <= ?2 AND state = 'waiting'
  AND NOT EXISTS (SELECT 1 FROM lock_claims WHERE name = waiter.name AND state < 'waiting')
