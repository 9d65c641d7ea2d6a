-- evict: takes all waiters of a client out of a line. ?1 name, ?2 client
DELETE FROM lock_claims WHERE name = ?1 AND state = 'waiting' AND client = ?2
