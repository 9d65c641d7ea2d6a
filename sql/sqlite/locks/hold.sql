-- hold: writes a grant. ?1 … ?11 as in take_free, ?12 token, ?13 kind, ?14 permits
INSERT INTO lock_claims (name, state, owner, kind, client, runner, incarnation, about, metadata, ttl, every,
                         linger, granted, ends, gone, token, permits)
VALUES (?1, 'held', ?2, ?13, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11 + ?8, ?11 + ?8 + ?10, ?12, ?14)
