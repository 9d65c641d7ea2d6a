-- waiters: the line, the next one first. ?1 name
SELECT runner, about, kind, priority, granted
FROM lock_claims WHERE name = ?1 AND state = 'waiting' ORDER BY score, owner
