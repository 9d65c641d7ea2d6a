-- holders: those who hold a lock, were granted it, or vanished with it. ?1 name
SELECT owner, state, kind, client, runner, incarnation, about, metadata, ttl, every, granted, ends, gone,
       renewals, token
FROM lock_claims WHERE name = ?1 AND state < 'waiting'
