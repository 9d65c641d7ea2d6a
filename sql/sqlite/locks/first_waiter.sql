-- first_waiter: who is next. ?1 name
SELECT owner, kind, client, permits, score, ends, renewals
FROM lock_claims WHERE name = ?1 AND state = 'waiting' ORDER BY score, owner LIMIT 1
