-- take_free: takes a lock that nobody has or waits for, in one statement. No row if it is not free.
-- ?1 name, ?2 owner, ?3 client, ?4 runner, ?5 incarnation, ?6 about, ?7 metadata, ?8 ttl, ?9 every,
-- ?10 linger, ?11 now, ?12 the time of day in µs
INSERT INTO lock_claims (name, state, owner, kind, client, runner, incarnation, about, metadata, ttl, every,
                         linger, granted, ends, gone, token)
SELECT ?1, 'held', ?2, 'x', ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11 + ?8, ?11 + ?8 + ?10,
       max(?12, 1 + ifnull((SELECT token FROM lock_tokens WHERE name = ?1), 0))
WHERE NOT EXISTS (SELECT 1 FROM lock_claims WHERE name = ?1)
RETURNING token
