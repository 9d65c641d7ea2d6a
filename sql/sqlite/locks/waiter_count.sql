-- waiter_count: ?1 name
SELECT count(*) FROM lock_claims WHERE name = ?1 AND state = 'waiting'
