-- waiter: the place of one who waits. ?1 name, ?2 owner
SELECT place FROM lock_claims WHERE name = ?1 AND state = 'waiting' AND owner = ?2
