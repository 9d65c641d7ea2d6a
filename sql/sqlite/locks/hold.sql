-- hold: writes a grant. ?1 name, ?2 owner, ?3 client, ?4 runner, ?5 incarnation, ?6 about, ?7 metadata, ?8 ttl,
-- ?9 every, ?10 linger, ?11 now, ?12 token, ?13 kind, ?14 permits
INSERT INTO lock_claims (name, state, owner, kind, client, runner, incarnation, about, metadata, ttl, every,
                         linger, granted, ends, gone, token, permits)
VALUES (?1, 'held', ?2, ?13, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11 + ?8, ?11 + ?8 + ?10, ?12, ?14)
